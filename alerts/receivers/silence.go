package receivers

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/alertmanager/pkg/labels"
	"github.com/prometheus/common/model"
)

// Bounds of silences.
const (
	MaxSilences   = 1000
	maxMatchers   = 20
	maxMatchBytes = 4 << 10
	maxAuthor     = 200
	maxComment    = 1000
	maxSilence    = 366 * 24 * time.Hour
	// keepExpired is how long an expired silence is listed.
	keepExpired = 5 * 24 * time.Hour
)

// Errors of silences. ErrSilence is wrapped by those that say what is wrong with one.
var (
	ErrSilence         = errors.New("invalid silence")
	ErrNoSilence       = errors.New("there is no such silence")
	ErrTooManySilences = fmt.Errorf("there are %d silences: expire some", MaxSilences)
)

// Silence keeps the receivers from hearing of the alerts that it matches.
type Silence struct {
	ID       string    `json:"id"`
	Matchers string    `json:"matchers"` // as in Alertmanager: service="shop",severity=~"page|critical"
	Starts   time.Time `json:"starts_at"`
	Ends     time.Time `json:"ends_at"`
	Author   string    `json:"author"`
	Comment  string    `json:"comment"`
	Created  time.Time `json:"created_at"`

	parsed labels.Matchers
}

// Active reports whether the silence holds at a time.
func (s *Silence) Active(now time.Time) bool { return !now.Before(s.Starts) && now.Before(s.Ends) }

// check reads the matchers and says what is wrong.
func (s *Silence) check() error {
	text := strings.TrimSpace(s.Matchers)
	if len(text) > maxMatchBytes {
		return fmt.Errorf("%w: matchers are longer than %d bytes", ErrSilence, maxMatchBytes)
	}
	parsed, err := labels.ParseMatchers(text)
	if err != nil {
		return fmt.Errorf("%w: matchers: %s (want service=\"shop\",severity=~\"page|critical\")", ErrSilence, clean(err.Error()))
	}
	switch {
	case len(parsed) == 0 || !slices.ContainsFunc(parsed, func(m *labels.Matcher) bool { return !m.Matches("") }):
		return fmt.Errorf("%w: matchers would match every alert (name a label that must be there)", ErrSilence)
	case len(parsed) > maxMatchers:
		return fmt.Errorf("%w: more than %d matchers", ErrSilence, maxMatchers)
	case s.Starts.IsZero() || !s.Starts.Before(s.Ends):
		return fmt.Errorf("%w: it must end after it starts", ErrSilence)
	case s.Ends.Sub(s.Starts) > maxSilence:
		return fmt.Errorf("%w: it lasts longer than %d days", ErrSilence, maxSilence/(24*time.Hour))
	}
	for _, t := range []struct {
		name, text string
		most       int
	}{{"author", s.Author, maxAuthor}, {"comment", s.Comment, maxComment}} {
		switch {
		case strings.TrimSpace(t.text) == "":
			return fmt.Errorf("%w: %s is missing", ErrSilence, t.name)
		case len(t.text) > t.most:
			return fmt.Errorf("%w: %s is longer than %d bytes", ErrSilence, t.name, t.most)
		case !utf8.ValidString(t.text) || strings.ContainsFunc(t.text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }):
			return fmt.Errorf("%w: %s holds control characters", ErrSilence, t.name)
		}
	}
	s.Matchers, s.parsed = text, labels.Matchers(parsed)
	return nil
}

// silences are all that hold, will hold, or have ended lately. The Dispatcher's mutex guards them.
type silences struct{ list []*Silence }

// match finds a silence that keeps an alert quiet; nil if there is none.
func (s *silences) match(all model.LabelSet, now time.Time) *Silence {
	for _, x := range s.list {
		if x.Active(now) && x.parsed.Matches(all) {
			return x
		}
	}
	return nil
}

// all copies them, the newest first.
func (s *silences) all() []Silence {
	out := make([]Silence, len(s.list))
	for i, x := range s.list {
		out[len(out)-1-i] = *x
	}
	return out
}

func (s *silences) restore(all []Silence) error {
	for _, x := range slices.Backward(all) {
		if err := x.check(); err != nil {
			return err
		}
		s.list = append(s.list, &x)
	}
	return nil
}

// forget drops silences that ended long ago, and, if there is no room for another, the ended ones that are oldest.
func (s *silences) forget(now time.Time) {
	s.list = slices.DeleteFunc(s.list, func(x *Silence) bool { return now.Sub(x.Ends) >= keepExpired })
	for len(s.list) >= MaxSilences {
		i := slices.IndexFunc(s.list, func(x *Silence) bool { return !now.Before(x.Ends) })
		if i < 0 {
			return
		}
		s.list = slices.Delete(s.list, i, i+1)
	}
}

// Silences lists all that hold, will hold, or ended within five days, the newest first.
func (d *Dispatcher) Silences() []Silence {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.silences.all()
}

// AddSilence begins one. Its id and time are set, and it is on disk when it holds. An error wraps ErrSilence or
// ErrTooManySilences, or is about the disk.
func (d *Dispatcher) AddSilence(s Silence) (Silence, error) {
	now := d.opt.Now()
	s.ID, s.Created = strings.ToLower(rand.Text()[:16]), now.UTC()
	if s.Starts.IsZero() {
		s.Starts = s.Created
	}
	if err := s.check(); err != nil {
		return s, err
	}
	if !now.Before(s.Ends) {
		return s, fmt.Errorf("%w: it has ended already", ErrSilence)
	}
	d.mu.Lock()
	d.silences.forget(now)
	if len(d.silences.list) >= MaxSilences {
		d.mu.Unlock()
		return s, ErrTooManySilences
	}
	d.silences.list = append(d.silences.list, &s)
	err := d.saveNow()
	if err != nil {
		d.mu.Lock()
		d.silences.list = slices.DeleteFunc(d.silences.list, func(x *Silence) bool { return x == &s })
		d.version++ // another save may have written it meanwhile
		d.mu.Unlock()
		return s, fmt.Errorf("save silence: %w", err)
	}
	return s, nil
}

// ExpireSilence ends one now. One that has ended stays as it is.
func (d *Dispatcher) ExpireSilence(id string) (Silence, error) {
	now := d.opt.Now().UTC()
	d.mu.Lock()
	i := slices.IndexFunc(d.silences.list, func(x *Silence) bool { return x.ID == id })
	if i < 0 {
		d.mu.Unlock()
		return Silence{}, ErrNoSilence
	}
	s := *d.silences.list[i]
	if !now.Before(s.Ends) {
		d.mu.Unlock()
		return s, nil
	}
	before := d.silences.list[i]
	s.Ends = now
	if s.Starts.After(now) {
		s.Starts = now.Add(-time.Nanosecond)
	}
	d.silences.list[i] = &s
	if err := d.saveNow(); err != nil {
		d.mu.Lock()
		if i := slices.Index(d.silences.list, &s); i >= 0 {
			d.silences.list[i] = before
			d.version++ // another save may have written it meanwhile
		}
		d.mu.Unlock()
		return s, fmt.Errorf("save silence: %w", err)
	}
	return s, nil
}

// saveNow unlocks the mutex, which is held, and waits until what it guards is on disk.
func (d *Dispatcher) saveNow() error {
	d.version++
	want := d.version
	d.mu.Unlock()
	return d.store.save(want, d.opt.Now(), d.snapshot)
}
