"""Everything that touches every atom or pair every step."""
