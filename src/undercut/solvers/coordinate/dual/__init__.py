"""The dual problems of coordinate descent, and the descent on them."""
