"""One adapter per peer. An adapter is imported only by a child process, in the environment that has its packages."""
