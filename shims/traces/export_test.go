package traces

// Stores is how many cases' traces are in memory.
func (s *Shim) Stores() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.stores)
}
