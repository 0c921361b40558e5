"""The console: options, progress, tables, durations, colours."""
