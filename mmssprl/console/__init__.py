"""Whatever a person reads: options, progress, tables, durations, colours."""
