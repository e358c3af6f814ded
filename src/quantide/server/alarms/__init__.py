"""Alarms: settings, evaluation, transitions and webhooks."""
