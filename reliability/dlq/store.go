package dlq

import (
	"context"
	"errors"
	"maps"
	"time"
)

// Store keeps dead letters in the order in which they came. All methods may be called
// concurrently.
type Store interface {
	// Save keeps entries and fills their empty IDs and times in place. After nil all of
	// them are kept as safely as the storage can; after an error some may be, and the
	// same slice may be given again: an ID that the store holds, or that was removed not
	// long ago, is skipped and is no error. (Files know the last IDs only, see
	// FileOptions.DedupIDs, and forget at a restart those that compaction took away.)
	// Errors wrap ErrFull, ErrNoSpace, ErrPoisoned, or ErrInvalid: all were kept but those
	// that can never be, so the same slice must not be given again.
	Save(ctx context.Context, entries []Entry) error
	// List returns one page of the matching entries, oldest first by default.
	List(ctx context.Context, q Query) (Page, error)
	// Get returns one entry, or an error that wraps ErrNotFound.
	Get(ctx context.Context, id string) (Entry, error)
	// Discard removes entries for good and returns how many there were. IDs that are not
	// there are no error.
	Discard(ctx context.Context, ids []string) (int, error)
	// Replayed removes entries that were replayed to their origin.
	Replayed(ctx context.Context, ids []string) (int, error)
	// Failed notes that replays failed: one attempt more, and the entry moves behind all
	// others. It keeps its age. Entries that are gone are no error.
	Failed(ctx context.Context, failures []Failure) (int, error)
	// Stats counts the stored entries.
	Stats(ctx context.Context) (Stats, error)
	// Purge removes the entries saved before a time and returns their number.
	Purge(ctx context.Context, before time.Time) (int, error)
	// Close releases the storage. Later calls fail with ErrClosed.
	Close() error
}

// Compacter is a Store that can free the space of removed entries.
type Compacter interface {
	Compact(ctx context.Context) error
}

// Failure is a replay that did not succeed.
type Failure struct {
	ID    string
	Class string    // of the error; "" leaves the entry's
	At    time.Time // zero leaves the entry's
}

var (
	// ErrNotFound says that there is no entry of that ID.
	ErrNotFound = errors.New("no such dead letter")
	// ErrFull says that the store has reached its bound. Stored entries stay.
	ErrFull = errors.New("dead-letter storage is full")
	// ErrNoSpace says that the disk is full. The store works again once it is not.
	ErrNoSpace = errors.New("no space left for dead letters")
	// ErrPoisoned says that the disk failed to store written data. The store can be read, and takes
	// nothing more until it is opened again.
	ErrPoisoned = errors.New("dead letters could not be synced to disk")
	// ErrClosed says that Close was called.
	ErrClosed = errors.New("dead-letter storage is closed")
)

// Stats are counts of the entries in a store.
type Stats struct {
	Backend string `json:"backend"` // file, redis or memory
	Count   int64  `json:"count"`
	// Bytes is the size of the stored entries; DiskBytes that of the files, with removed entries that
	// are not compacted yet (0 where there are none).
	Bytes     int64 `json:"bytes"`
	DiskBytes int64 `json:"disk_bytes,omitempty"`
	// MemoryBytes is the memory that Redis uses for them, including the index; 0 elsewhere, and if
	// Redis does not report it.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// Oldest is the smallest time of saving, zero if there is none.
	Oldest time.Time `json:"oldest,omitzero"`
	// Newest is the largest time of saving, zero if there is none.
	Newest time.Time `json:"newest,omitzero"`
	// ByOrigin, ByReason and BySink count entries. Beyond 256 combinations the rest goes
	// under "(other)"; entries without a sink are left out of BySink.
	ByOrigin map[string]int64 `json:"by_origin"`
	ByReason map[string]int64 `json:"by_reason"`
	BySink   map[string]int64 `json:"by_sink"`
	// Damaged is the number of places in files that could not be read.
	Damaged int64 `json:"damaged,omitempty"`
	// Lost describes the contents of those places; nil if there are none.
	Lost *Loss `json:"lost,omitempty"`
	// TornBytes are the unreadable ends of files whose last write a crash cut short. Their contents
	// were never acknowledged.
	TornBytes int64 `json:"torn_bytes,omitempty"`
}

// Loss is the loss caused by damage.
type Loss struct {
	Entries int64 `json:"entries"` // at most
	Bytes   int64 `json:"bytes"`
	// From and To are when the entries around the places were saved.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
}

// tallyKey is the key by which Stats counts.
type tallyKey struct {
	origin       Origin
	reason, sink string
}

const (
	maxTallies = 256
	tallyOther = "(other)"
)

func keyOf(e *Entry) tallyKey { return tallyKey{e.Origin, e.Reason, e.Sink} }

// tallies count entries by a bounded number of keys.
type tallies map[tallyKey]int64

// admit is the key to count under: key itself, or the rest of its origin if there are too
// many keys already.
func (t tallies) admit(key tallyKey) tallyKey {
	if _, ok := t[key]; ok || len(t) < maxTallies {
		return key
	}
	return tallyKey{key.origin, tallyOther, tallyOther}
}

func (t tallies) add(key tallyKey, n int64) {
	if t[key] += n; t[key] == 0 {
		delete(t, key)
	}
}

func (t tallies) stats() Stats {
	s := Stats{ByOrigin: map[string]int64{}, ByReason: map[string]int64{}, BySink: map[string]int64{}}
	for key, n := range maps.All(t) {
		s.Count += n
		s.ByOrigin[string(key.origin)] += n
		s.ByReason[key.reason] += n
		if key.sink != "" {
			s.BySink[key.sink] += n
		}
	}
	return s
}

// removal is why an entry is no longer there.
type removal byte

const (
	discarded removal = 'd'
	replayed  removal = 'r'
	purged    removal = 'p'
)

// Each calls f with all pages of a query, until f or the store fails.
func Each(ctx context.Context, s Store, q Query, f func([]Entry) error) error {
	for {
		page, err := s.List(ctx, q)
		if err != nil {
			return err
		}
		if len(page.Entries) > 0 {
			if err := f(page.Entries); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		q.Cursor = page.Next
	}
}

// DiscardMatching removes all entries that match a query and returns their number; a dry run only
// counts. Entries that arrive meanwhile may or may not be among them.
func DiscardMatching(ctx context.Context, s Store, q Query, dryRun bool) (n int, err error) {
	q.Limit = MaxLimit
	err = Each(ctx, s, q, func(entries []Entry) error {
		if dryRun {
			n += len(entries)
			return nil
		}
		removed, err := s.Discard(ctx, idsOf(entries))
		n += removed
		return err
	})
	return n, err
}

func idsOf(entries []Entry) []string {
	ids := make([]string, len(entries))
	for i := range entries {
		ids[i] = entries[i].ID
	}
	return ids
}
