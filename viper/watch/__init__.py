"""Standing conditions over videos that go on: windows, events, and who is told of them."""
