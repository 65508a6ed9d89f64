"""Records as columns of Arrow; needs PyArrow."""
