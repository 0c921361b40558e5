"""Pre-train networks of other packages, and take them back into their own tools."""
