package ratelimit

import "encoding/binary"

// maxKept is how much of a context's value is kept, to show it among the offenders.
// The key is made of all of it.
const maxKept = 256

// callerValue is the value of one source that is the same for all events of a request.
type callerValue struct {
	known, some bool
	key         Key
	value       uint32
}

// recentValue is the last value of a context. Events of a request often share it.
type recentValue struct {
	some  bool
	key   Key
	value uint32
}

// begin prepares t for the events of a caller.
func (t *Tickets) begin(p *Policy, c *Caller) {
	t.policy, t.caller = p, c
	t.origin = resize(t.origin, p.slots)
	t.recent = resize(t.recent, len(p.contexts))
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// context finds the event's value of the i-th context rule.
func (t *Tickets) context(i int, x *contextRule, c *Caller, s *Subject) (Key, uint32, bool) {
	if x.extract != nil {
		if v := x.extract(c, s); v != "" {
			key, value := keep(t, x, v)
			return key, value, true
		}
	}
	for j := range x.from {
		src := &x.from[j]
		if src.Kind != FromAttribute {
			o := &t.origin[src.slot]
			if !o.known {
				o.known = true
				if v := c.value(src); v != "" {
					o.some = true
					o.key, o.value = keep(t, x, v)
				}
			}
			if o.some {
				return o.key, o.value, true
			}
			continue
		}
		if s.Attrs == nil {
			continue
		}
		v, ok := s.Attrs.Attr(src.Name)
		if !ok || len(v) == 0 {
			continue
		}
		r := &t.recent[i]
		if r.some && string(t.valueAt(r.value)) == string(v) {
			return r.key, r.value, true
		}
		r.key, r.value = keep(t, x, v)
		r.some = len(v) <= maxKept // else the retained text is incomplete
		return r.key, r.value, true
	}
	return Key{}, 0, false
}

func (c *Caller) value(s *source) string {
	switch s.Kind {
	case FromHeader:
		if c.Header != nil {
			return c.Header(s.Name)
		}
	case FromClientIP:
		return c.IP
	case FromToken:
		return c.Token
	}
	return ""
}

// keep hashes a value and stores it with its length.
func keep[T string | []byte](t *Tickets, x *contextRule, v T) (Key, uint32) {
	at := len(t.values)
	t.values = append(t.values, x.keys.text...)
	t.values = append(t.values, v...)
	key := hashKey(t.values[at:])
	v = v[:min(len(v), maxKept)]
	t.values = binary.LittleEndian.AppendUint16(t.values[:at], uint16(len(v)))
	t.values = append(t.values, v...)
	return key, uint32(at)
}

func (t *Tickets) valueAt(i uint32) []byte {
	n := uint32(binary.LittleEndian.Uint16(t.values[i:]))
	return t.values[i+2 : i+2+n]
}
