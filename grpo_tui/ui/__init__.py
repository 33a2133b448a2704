"""The terminal interface. The only package that knows Textual; it trains nothing and blocks nothing."""
