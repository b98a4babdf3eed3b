"""Runs the jobs: options, inputs and reports."""
