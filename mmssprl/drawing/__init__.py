"""Pictures: their style, sheets of tiles, and how a page embeds them."""
