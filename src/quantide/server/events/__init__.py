"""Event streams: subscribers, and the hub that notifies them."""
