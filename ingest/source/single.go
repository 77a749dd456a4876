package source

// This file is for sources that take each message for itself: they inspect it before it becomes an event, and need
// its outcome.

// Refuse adds a message that the source itself cannot read. It becomes a dead letter with the reason when the batch is
// submitted.
func (b *Batch) Refuse(m *Message, why error) {
	b.begin(m)
	b.unreadable(why)
	b.current = nil
}

// Outcomes calls f for each message of a submitted batch, in order: how many of its events were accepted, which
// includes merged, sampled and dropped ones, how many were duplicates, and whether it or an event in it became a dead
// letter.
func (b *Batch) Outcomes(f func(message, accepted, duplicates int, refused bool)) {
	next := 0
	for i := range b.messages {
		m := &b.messages[i]
		accepted, duplicates := 0, 0
		for ; next < len(b.events.Events) && b.events.Events[next].Index < m.first+m.count; next++ {
			if b.duplicates[b.events.Events[next].Index] {
				duplicates++
			} else {
				accepted++
			}
		}
		f(i, accepted, duplicates, m.refused || accepted+duplicates < m.count)
	}
}
