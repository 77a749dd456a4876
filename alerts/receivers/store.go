package receivers

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/internal/order"
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
	// Incidents are those that receivers of events were told of, by target and ID.
	Incidents map[string]map[string]knownIncident `json:"incidents,omitempty"`
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
	Gone    bool                 `json:"gone,omitempty"` // in the journal: the group has ended
}

func (g *group) json() groupJSON {
	return groupJSON{Key: g.key, Due: g.due, Flushed: g.flushed, Members: g.members, Sent: g.sent}
}

// store is the file of a Dispatcher and its journal. Whoever waits for a write that is under way shares the next one.
type store struct {
	file    fsys.StateFile[fileJSON]
	failing health.Log

	mu      sync.Mutex // held while a file is written; guards the fields below
	journal journal
	saved   uint64
}

// changeSet is what is to be saved. The Dispatcher's mutex guards them.
type changeSet struct {
	version uint64          // grows with each
	whole   bool            // the silences, or more than the journal takes
	groups  map[string]bool // by key
}

func (c *changeSet) group(key string) {
	c.version++
	c.groups[key] = true
}

func (c *changeSet) all() {
	c.version++
	c.whole = true
}

// save writes what has changed. If that fails, notifications are sent nevertheless: a repeated one after a crash is
// better than none.
func (d *Dispatcher) save() {
	d.mu.Lock()
	want := d.changes.version
	d.mu.Unlock()
	_ = d.saveVersion(want) // logged
}

// saveVersion saves what has changed up to a version, and since.
func (d *Dispatcher) saveVersion(want uint64) error {
	s := &d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saved >= want {
		return nil
	}
	version, data, whole := d.unsaved(&s.journal)
	var err error
	if !whole {
		err = s.journal.add(data)
	} else if err = s.file.Write(data); err != nil {
		s.journal.close()
	} else {
		_ = s.journal.begin(data) // without one, the next save writes everything again
	}
	s.failing.Note(err, "file", s.file.Name)
	if err == nil {
		s.saved = version
	}
	return err
}

// unsaved encodes the groups that changed, as lines of the journal. Where that has no room, whole is true, and it
// encodes everything.
func (d *Dispatcher) unsaved(j *journal) (version uint64, data []byte, whole bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if whole = d.changes.whole || j.f == nil; !whole {
		for key := range d.changes.groups {
			change := groupJSON{Key: key, Gone: true}
			if g := d.groups[key]; g != nil {
				change = g.json()
			}
			data = j.line(data, change)
		}
		whole = j.size+len(data) > j.most
	}
	if whole {
		data = d.snapshot()
	}
	d.changes.whole = false
	clear(d.changes.groups)
	return d.changes.version, data, whole
}

// endJournal leaves everything in one file.
func (d *Dispatcher) endJournal() {
	j := &d.store.journal
	d.store.mu.Lock()
	lines := j.f != nil && j.size > 0
	d.store.mu.Unlock()
	if lines {
		d.mu.Lock()
		_ = d.saveNow() // logged
	}
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	j.close()
}

// snapshot encodes the groups and the silences. The mutex is held.
func (d *Dispatcher) snapshot() []byte {
	f := fileJSON{Version: FileVersion, Groups: []groupJSON{}, Silences: d.silences.all(), Incidents: d.told}
	for _, g := range d.groups {
		f.Groups = append(f.Groups, g.json())
	}
	order.By(f.Groups, func(a, b *groupJSON) int { return strings.Compare(a.Key, b.Key) })
	data, err := json.Marshal(f)
	if err != nil {
		return nil // texts and times can always be encoded
	}
	return append(data, '\n')
}

// newStore returns the file of a Dispatcher.
func newStore(o *Options) store {
	return store{
		journal: journal{name: o.File + JournalSuffix},
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
	var later []groupJSON
	if file, err := fsys.ReadFile(d.opt.File, fsys.MaxStateBytes); err == nil {
		later = d.store.journal.read(file)
	}
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
	for name, told := range f.Incidents {
		d.told[name] = told
	}
	if f.Version == 0 { // there is none, or it was damaged
		later = nil
	}
	for _, j := range append(f.Groups, later...) {
		if j.Gone {
			delete(d.groups, j.Key)
			continue
		}
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
