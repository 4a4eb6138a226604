"""The version of this package. It needs a library with the same major and minor version."""
VERSION = "0.2.0"
