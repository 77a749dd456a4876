package ratelimit

import "time"

const (
	tracked      = 256              // values by which a sketch is bounded
	offenderSpan = 30 * time.Minute // of one sketch; two of them are shown
	shown        = 10
)

// sketch finds the values that occur most often among any number of them, with memory
// for a few: Space-Saving (Metwally, Agrawal and El Abbadi, 2005). A new value takes the place of
// the one with the lowest count, continues from that count, and records it as its error. So a count
// is never too low, and by its error too high at most.
type sketch struct {
	entries []entry
	by      map[Key]int32
	heap    []int32 // entries, the lowest count first
	place   []int32 // of an entry in heap
}

type entry struct {
	key         Key
	value       []byte
	hits, slack uint64 // at most hits occurred, at least hits - slack
}

func newSketch() *sketch { return &sketch{by: make(map[Key]int32, tracked)} }

func (s *sketch) note(key Key, value []byte) {
	if i, ok := s.by[key]; ok {
		s.entries[i].hits++
		s.down(s.place[i])
		return
	}
	if n := int32(len(s.entries)); n < tracked {
		s.entries = append(s.entries, entry{key: key, value: append([]byte(nil), value...), hits: 1})
		s.heap, s.place = append(s.heap, n), append(s.place, n)
		s.by[key] = n
		s.up(n)
		return
	}
	i := s.heap[0]
	e := &s.entries[i]
	delete(s.by, e.key)
	s.by[key] = i
	e.key, e.value = key, append(e.value[:0], value...)
	e.slack = e.hits
	e.hits++
	s.down(0)
}

// floor bounds the count of values that are not in the sketch.
func (s *sketch) floor() uint64 {
	if len(s.entries) < tracked {
		return 0
	}
	return s.entries[s.heap[0]].hits
}

func (s *sketch) less(a, b int32) bool {
	return s.entries[s.heap[a]].hits < s.entries[s.heap[b]].hits
}

func (s *sketch) swap(a, b int32) {
	s.heap[a], s.heap[b] = s.heap[b], s.heap[a]
	s.place[s.heap[a]], s.place[s.heap[b]] = a, b
}

func (s *sketch) up(i int32) {
	for i > 0 && s.less(i, (i-1)/2) {
		s.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (s *sketch) down(i int32) {
	for {
		low := 2*i + 1
		if low >= int32(len(s.heap)) {
			return
		}
		if low+1 < int32(len(s.heap)) && s.less(low+1, low) {
			low++
		}
		if !s.less(low, i) {
			return
		}
		s.swap(low, i)
		i = low
	}
}

// offenders are the values of one context rule that recently went over its limit.
type offenders struct {
	now, before *sketch
	since       time.Time // of now
}

// roll begins a new sketch when the present one is full of old news.
func (o *offenders) roll(now time.Time) {
	switch age := now.Sub(o.since); {
	case o.now == nil || age >= 2*offenderSpan:
		*o = offenders{newSketch(), newSketch(), now}
	case age >= offenderSpan:
		*o = offenders{newSketch(), o.now, o.since.Add(offenderSpan)}
	}
}

// list adds up both sketches. A value that one lacks may have occurred there, up to the lowest
// count in it.
func (o *offenders) list(context string) []Offender {
	var out []Offender
	for _, pair := range [][2]*sketch{{o.now, o.before}, {o.before, o.now}} {
		one, other := pair[0], pair[1]
		for i := range one.entries {
			e := &one.entries[i]
			f := Offender{context, string(e.value), e.hits, e.slack}
			if j, ok := other.by[e.key]; !ok {
				f.Hits += other.floor()
				f.Error += other.floor()
			} else if one == o.before {
				continue // was in the first
			} else {
				f.Hits += other.entries[j].hits
				f.Error += other.entries[j].slack
			}
			out = append(out, f)
		}
	}
	return out
}
