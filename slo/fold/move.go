package fold

// This file moves counts between stores, when the retention of an indicator changes or a generation is parked or
// resumed. What a store holds for others is not touched.

// columnMove takes w columns from one store to another.
type columnMove struct{ from, to, w uint32 }

// The moves here go block by block and not column by column: a block's columns lie side
// by side, and there are ten thousand blocks.

// take empties the columns of a block and gives what they had to put. It reports
// whether there was anything, and lets go of a block that is left empty.
//
// put must not touch the block.
func (b *block[C]) take(moves []columnMove, put func(col uint32, n uint64)) bool {
	taken := false
	for _, m := range moves {
		end := min(int(m.from+m.w), len(b.cells))
		for c := int(m.from); c < end; c++ {
			n := uint64(b.cells[c])
			if b.carry != nil {
				n += b.carry[uint32(c)]
				delete(b.carry, uint32(c))
			}
			if n == 0 {
				continue
			}
			b.cells[c] = 0
			taken = true
			put(m.to+uint32(c)-m.from, n)
		}
	}
	if taken && b.used() == 0 {
		b.cells, b.carry = nil, nil
	}
	return taken
}

// drop is take of counts that are not wanted.
func (b *block[C]) drop(moves []columnMove, clock uint64) {
	if b.take(moves, func(uint32, uint64) {}) {
		b.ver = clock
	}
}

// top is one above the highest column that moves go to.
func top(moves []columnMove) uint32 {
	var t uint32
	for _, m := range moves {
		t = max(t, m.to+m.w)
	}
	return t
}

// moveAll moves columns to a store of another retention, as far back as that keeps
// them, and returns them. What it has no leaves for is kept by the hour. Without
// dst they are emptied only.
//
// Hours of the old store are dropped and not moved: the new store adds up its own from the leaves. The columns
// are freed at the end, when they are empty everywhere.
func (s *store) moveAll(moves []columnMove, dst *store, clock uint64) {
	to := top(moves)
	for i := range s.levels {
		l := &s.levels[i]
		for j := range l.blocks {
			b := &l.blocks[j]
			sec := l.start + int64(j)*widths[i]
			switch {
			case b.cells == nil:
			case dst == nil:
				b.drop(moves, clock)
			default:
				var leaf *block[uint16]
				var hour *block[uint32]
				past := dst.past.at
				if b.take(moves, func(col uint32, n uint64) {
					if leaf == nil && hour == nil {
						if sec >= dst.oldest() {
							leaf, hour = dst.leaf(sec), dst.hour(sec)
							leaf.touch(to, dst.cols.room(), clock)
						} else if hour = past(sec); hour == nil {
							return // too old for anything
						}
						hour.touch(to, dst.cols.room(), clock)
					}
					if leaf != nil {
						leaf.bump1(col, n)
					}
					hour.bump1(col, n)
				}) {
					b.ver = clock
				}
			}
		}
	}
	for i := range s.hours {
		s.hours[i].drop(moves, clock)
	}
	var into *past
	room := 0
	if dst != nil {
		into, room = &dst.past, dst.cols.room()
	}
	s.past.moveAll(moves, into, room, clock)
	for _, m := range moves {
		s.cols.give(m.from, m.w)
	}
}

// moveAll moves columns to another past of the same width; without dst they are emptied only.
func (p *past) moveAll(moves []columnMove, dst *past, room int, clock uint64) {
	to := top(moves)
	for i := range p.blocks {
		b := &p.blocks[i]
		var into *block[uint32]
		if b.cells != nil && b.take(moves, func(col uint32, n uint64) {
			if into == nil && dst != nil {
				if into = dst.at((p.first + int64(i)) * p.width); into != nil {
					into.touch(to, room, clock)
				}
			}
			if into != nil {
				into.bump1(col, n)
			}
		}) {
			b.ver = clock
		}
	}
}

// moveAll moves the columns of groups to a store of another retention and gives them
// back. What is kept by the run goes along. Without dst they are emptied only.
func (s *sliceStore) moveAll(moves []columnMove, dst *sliceStore, clock uint64) {
	to := top(moves)
	for i := range s.blocks {
		b := &s.blocks[i]
		var into *block[uint16]
		if b.cells != nil && b.take(moves, func(col uint32, n uint64) {
			if into == nil && dst != nil {
				if into = dst.slice(s.first + int64(i)); into != nil {
					into.touch(to, dst.cols.room(), clock)
				}
			}
			if into != nil {
				into.bump1(col, n)
			}
		}) {
			b.ver = clock
		}
	}
	judged := make([]columnMove, len(moves))
	for i, m := range moves {
		judged[i] = columnMove{judgedAt(m.from), judgedAt(m.to), judgedColumns}
	}
	var into *past
	room := 0
	if dst != nil {
		into, room = &dst.past, dst.judgedRoom()
	}
	s.past.moveAll(judged, into, room, clock)
	for _, m := range moves {
		s.cols.give(m.from, m.w)
	}
}

// moves gives all columns of an indicator new places, from take, and says which move.
//
// It changes the groups at once, so the counts must be moved before anything else happens.
func (ind *indicator) moves(take func(w uint32) uint32) (moves []columnMove) {
	move := func(col, w uint32) uint32 {
		to := take(w)
		moves = append(moves, columnMove{col, to, w})
		return to
	}
	for _, g := range ind.sorted {
		g.col = move(g.col, uint32(ind.width))
	}
	for _, g := range ind.sorted {
		if g.squares > 0 {
			g.squares = move(g.squares-1, 1) + 1
		}
	}
	if d := ind.dropped; d != nil {
		d.col = move(d.col, uint32(ind.widthOf(d)))
	}
	return moves
}

// nowhere is for moves that only empty columns.
func nowhere(uint32) uint32 { return 0 }
