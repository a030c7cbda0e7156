"""From a nudge to the lists: looking, hearing the kernel log, stepping the checks, assembling."""
