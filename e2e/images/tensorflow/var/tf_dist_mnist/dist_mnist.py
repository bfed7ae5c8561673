# The real image has its training program here.
