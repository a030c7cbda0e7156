"""A grant as a person would see it, with no kubelet: worked out from a fresh look, in the forms that runtimes take."""
