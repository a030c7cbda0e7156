"""The edge of an Allocate: what is granted, preferred, prepared before a start, held by pods and told to CNI."""
