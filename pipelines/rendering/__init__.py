"""Text, tables, figures and pages: what the report and other products write for people to read."""
