package traces

// Stores is how many cases' traces are in memory.
func (s *Shim) Stores() int { return s.stores.Len() }
