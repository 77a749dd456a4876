package fold

import (
	"encoding/hex"
	"errors"
	"slices"

	"github.com/zeebo/xxh3"
)

// candidate is a generation that an indicator of a new config may go on with.
type candidate struct {
	id     string
	former []string
	key    string
	parked bool
}

// match finds, for each indicator of a new config, the generation whose counts it
// goes on with: its place in held, or -1 if it starts from zero. That is one with the
// same definition: in use under the same ID, or under the one that it was; parked
// under its ID; in use under an ID that is gone, and before under this one, so that a
// rename can be undone; parked under the ID that it was; parked, and before under
// this ID. Of parked ones the last is the newest.
func match(inds []*indicator, key func(*indicator) string, held []candidate) []int {
	from := make([]int, len(inds))
	ids, taken := map[string]bool{}, make([]bool, len(held))
	inUse := map[string]string{} // definitions, by ID
	for _, h := range held {
		if !h.parked {
			inUse[h.id] = h.key
		}
	}
	for i, ind := range inds {
		ids[ind.spec.ID], from[i] = true, -1
	}
	pass := func(fits func(ind *indicator, h *candidate) bool) {
		for i, ind := range inds {
			for j := len(held) - 1; j >= 0 && from[i] < 0; j-- {
				if h := &held[j]; !taken[j] && h.key == key(ind) && fits(ind, h) {
					from[i], taken[j] = j, true
				}
			}
		}
	}
	pass(func(ind *indicator, h *candidate) bool { return !h.parked && h.id == ind.spec.ID })
	pass(func(ind *indicator, h *candidate) bool {
		_, changed := inUse[ind.spec.ID]
		return !h.parked && h.id == ind.spec.Was && !ids[h.id] && !changed
	})
	pass(func(ind *indicator, h *candidate) bool { return h.parked && h.id == ind.spec.ID })
	pass(func(ind *indicator, h *candidate) bool {
		return !h.parked && !ids[h.id] && slices.Contains(h.former, ind.spec.ID)
	})
	pass(func(ind *indicator, h *candidate) bool { return h.parked && h.id == ind.spec.Was && !ids[h.id] })
	pass(func(ind *indicator, h *candidate) bool {
		return h.parked && !ids[h.id] && slices.Contains(h.former, ind.spec.ID)
	})
	return from
}

// Change is what a config does to the generations. IDs are those of indicators,
// rising.
type Change struct {
	// Started are those that start from zero.
	Started []string
	// Resumed are those that go on with a parked generation, and Parked those that
	// are not in use any more. A definition that changed is in Started or Resumed
	// under the new one and in Parked under the old one.
	Resumed, Parked []Generation
}

// Compare says what a config would do to generations, as Generations lists them.
func Compare(held []Generation, cfg *Config) (Change, error) {
	if cfg == nil {
		return Change{}, errors.New("no config")
	}
	c, err := compile(cfg)
	if err != nil {
		return Change{}, err
	}
	all := make([]candidate, len(held))
	for i, h := range held {
		all[i] = candidate{h.ID, h.Former, h.Definition, h.Number > 0}
	}
	return changeOf(c.inds, match(c.inds, func(ind *indicator) string { return definition(ind.key) }, all), held), nil
}

func changeOf(inds []*indicator, from []int, held []Generation) Change {
	var c Change
	used := make([]bool, len(held))
	for i, ind := range inds {
		switch j := from[i]; {
		case j < 0:
			c.Started = append(c.Started, ind.spec.ID)
		case held[j].Number > 0:
			resumed := held[j]
			resumed.ID = ind.spec.ID
			c.Resumed = append(c.Resumed, resumed)
			fallthrough
		default:
			used[j] = true
		}
	}
	for j, h := range held {
		if !used[j] && h.Number == 0 {
			c.Parked = append(c.Parked, h)
		}
	}
	return c
}

// definition is a short form of a generation's key.
func definition(key string) string {
	sum := xxh3.HashString128(key).Bytes()
	return hex.EncodeToString(sum[:])
}
