"""Text that grows: which part is translated, where it is cut, what stays on the screen. Pure."""
