"""The console: server-rendered pages for the people who manage domains."""
