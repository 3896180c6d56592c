"""For all of interop."""

import signal

# Whoever starts the tests in the background may have these ignored, and programs inherit that.
for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
