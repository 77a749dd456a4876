package receivers

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/health"
)

// FileVersion grows with every change that an older reader would get wrong.
const FileVersion = 2 // 2: matchers of silences name the labels slo_tier, slo_long and so on

// fileJSON is what outlives a restart.
type fileJSON struct {
	Version  int               `json:"version"`
	Groups   []groupJSON       `json:"groups"`
	Silences []silence.Silence `json:"silences"`
}

// UnmarshalJSON takes fields that it does not know for damage.
func (f *fileJSON) UnmarshalJSON(data []byte) error {
	type plain fileJSON
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode((*plain)(f))
}

type groupJSON struct {
	Key     string               `json:"key"`
	Due     time.Time            `json:"due"`
	Flushed bool                 `json:"flushed"`
	Members map[string]time.Time `json:"members"` // when each began to fire, by fingerprint
	Sent    map[string]*sent     `json:"sent"`
}

// store is the file of a Dispatcher. Whoever waits for a write that is under way shares the next one.
type store struct {
	file    fsys.StateFile[fileJSON]
	failing health.Log

	mu    sync.Mutex // held while the file is written; guards the fields below
	saved uint64
}

// save writes what has changed. If that fails, notifications are sent nevertheless: a repeated one after a crash is
// better than none.
func (d *Dispatcher) save() {
	d.mu.Lock()
	want := d.version
	d.mu.Unlock()
	_ = d.store.save(want, d.snapshot) // logged
}

func (s *store) save(want uint64, snapshot func() (uint64, []byte)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saved >= want {
		return nil
	}
	version, data := snapshot()
	err := s.file.Write(data)
	s.failing.Note(err, "file", s.file.Name)
	if err == nil {
		s.saved = version
	}
	return err
}

// snapshot encodes the groups and the silences.
func (d *Dispatcher) snapshot() (version uint64, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := fileJSON{Version: FileVersion, Groups: []groupJSON{}, Silences: d.silences.all()}
	for _, g := range d.groups {
		f.Groups = append(f.Groups, groupJSON{Key: g.key, Due: g.due, Flushed: g.flushed, Members: g.members, Sent: g.sent})
	}
	slices.SortFunc(f.Groups, func(a, b groupJSON) int { return strings.Compare(a.Key, b.Key) })
	data, err := json.Marshal(f)
	if err != nil {
		return 0, nil // texts and times can always be encoded
	}
	return d.version, append(data, '\n')
}

// newStore returns the file of a Dispatcher.
func newStore(o *Options) store {
	return store{
		file: fsys.StateFile[fileJSON]{
			Name: o.File, What: "notifications", Damaged: "notifications are unreadable, starting without them",
			Files: fsys.OS(), Oldest: 1, Newest: FileVersion, Logger: o.Logger,
		},
		failing: health.Log{
			Tracker: health.Tracker{Now: o.Now}, Logger: o.Logger,
			Broken: "saving notifications failed, a restart may repeat some", Works: "notifications are saved again",
		},
	}
}

// load reads what an earlier process knew.
func (d *Dispatcher) load() error {
	f, err := d.store.file.Load(func(f *fileJSON) error {
		if f.Version == 1 {
			if err := renameMatchers(f.Silences); err != nil {
				return err
			}
		}
		return d.silences.restore(f.Silences)
	})
	if err != nil {
		return err
	}
	for _, j := range f.Groups {
		g := newGroup(j.Key, j.Due)
		g.flushed = j.Flushed
		for id, at := range j.Members {
			g.members[id] = at
		}
		for name, s := range j.Sent {
			if s != nil && slices.IsSorted(s.Firing) && slices.IsSorted(s.Resolved) {
				g.sent[name] = s
			}
		}
		d.groups[j.Key] = g
	}
	return nil
}
