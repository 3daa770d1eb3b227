"""Whether the processes of a running job are where its device map has them."""
