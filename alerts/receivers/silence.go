package receivers

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/alertmanager/pkg/labels"
	"github.com/prometheus/common/model"

	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/rules/series"
)

// Bounds of silences.
const (
	maxMatchers = 20
	maxSilence  = 366 * 24 * time.Hour
	// keepExpired is how long an expired silence is listed.
	keepExpired = 5 * 24 * time.Hour
)

// heldSilence is a silence whose matchers were read. It does not change.
type heldSilence struct {
	silence.Silence
	parsed labels.Matchers
}

// check reads the matchers and says what is wrong.
func (s *heldSilence) check() error {
	text := strings.TrimSpace(s.Matchers)
	if utf8.RuneCountInString(text) > silence.MaxMatchers {
		return fmt.Errorf("%w: matchers are longer than %d characters", silence.ErrInvalid, silence.MaxMatchers)
	}
	parsed, err := labels.ParseMatchers(text)
	if err != nil {
		return fmt.Errorf("%w: matchers: %s (want service=\"shop\",severity=~\"page|ticket\")",
			silence.ErrInvalid, clean(err.Error()))
	}
	switch {
	case len(parsed) == 0 || !slices.ContainsFunc(parsed, func(m *labels.Matcher) bool { return !m.Matches("") }):
		return fmt.Errorf("%w: matchers would match every alert (name a label that must be there)", silence.ErrInvalid)
	case len(parsed) > maxMatchers:
		return fmt.Errorf("%w: more than %d matchers", silence.ErrInvalid, maxMatchers)
	case s.Starts.IsZero() || !s.Starts.Before(s.Ends):
		return fmt.Errorf("%w: it must end after it starts", silence.ErrInvalid)
	case s.Ends.Sub(s.Starts) > maxSilence:
		return fmt.Errorf("%w: it lasts longer than %d days", silence.ErrInvalid, maxSilence/(24*time.Hour))
	}
	for _, t := range []struct {
		name, text string
		most       int
	}{{"author", s.Author, silence.MaxAuthor}, {"comment", s.Comment, silence.MaxComment}} {
		switch {
		case strings.TrimSpace(t.text) == "":
			return fmt.Errorf("%w: %s is missing", silence.ErrInvalid, t.name)
		case utf8.RuneCountInString(t.text) > t.most:
			return fmt.Errorf("%w: %s is longer than %d characters", silence.ErrInvalid, t.name, t.most)
		case !utf8.ValidString(t.text) || strings.ContainsFunc(t.text, func(r rune) bool {
			return unicode.IsControl(r) && r != '\n'
		}):
			return fmt.Errorf("%w: %s holds control characters", silence.ErrInvalid, t.name)
		}
	}
	s.Matchers, s.parsed = text, labels.Matchers(parsed)
	return nil
}

// silences are all that hold, will hold, or have ended lately. The Dispatcher's mutex guards them.
type silences struct{ list []*heldSilence }

// active lists those that hold.
func (s *silences) active(now time.Time) []*heldSilence {
	var out []*heldSilence
	for _, x := range s.list {
		if x.State(now) == silence.Active {
			out = append(out, x)
		}
	}
	return out
}

// match reports whether a silence keeps an alert quiet.
func (s *silences) match(all model.LabelSet, now time.Time) bool {
	return slices.ContainsFunc(s.list, func(x *heldSilence) bool {
		return x.State(now) == silence.Active && x.parsed.Matches(all)
	})
}

// all copies them, the newest first.
func (s *silences) all() []silence.Silence {
	out := make([]silence.Silence, len(s.list))
	for i, x := range s.list {
		out[len(out)-1-i] = x.Silence
	}
	return out
}

func (s *silences) restore(all []silence.Silence) error {
	for _, x := range slices.Backward(all) {
		held := &heldSilence{Silence: x}
		if err := held.check(); err != nil {
			return err
		}
		s.list = append(s.list, held)
	}
	return nil
}

// renameMatchers gives silences of an older file the present names of the labels of alerts.
func renameMatchers(all []silence.Silence) error {
	for i := range all {
		held := &heldSilence{Silence: all[i]}
		if err := held.check(); err != nil {
			return err
		}
		for _, m := range held.parsed {
			m.Name = series.RenamedAlertLabel(m.Name)
		}
		all[i].Matchers = strings.Trim(held.parsed.String(), "{}")
	}
	return nil
}

// forget drops silences that ended long ago, and, if there is no room for another, the ended ones that are oldest.
func (s *silences) forget(now time.Time) {
	s.list = slices.DeleteFunc(s.list, func(x *heldSilence) bool { return now.Sub(x.Ends) >= keepExpired })
	for len(s.list) >= silence.Max {
		i := slices.IndexFunc(s.list, func(x *heldSilence) bool { return !now.Before(x.Ends) })
		if i < 0 {
			return
		}
		s.list = slices.Delete(s.list, i, i+1)
	}
}

// Silences lists all that hold, will hold, or ended within five days, the newest first.
func (d *Dispatcher) Silences() []silence.Silence {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.silences.all()
}

// HasReceivers reports whether a silence could mute any receiver.
func (d *Dispatcher) HasReceivers() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.plan.root != nil
}

// Silencing returns a function that lists the silences, by id, that keep a firing alert quiet now. It is nil if there
// are none, or no receivers.
func (d *Dispatcher) Silencing() func(a *state.Alert) []string {
	d.mu.Lock()
	active, p := d.silences.active(d.opt.Now()), d.plan
	d.mu.Unlock()
	if p.root == nil || len(active) == 0 {
		return nil
	}
	return func(a *state.Alert) (ids []string) {
		if a.State != state.Firing {
			return nil
		}
		all := p.labels(a)
		for _, x := range active {
			if x.parsed.Matches(all) {
				ids = append(ids, x.ID)
			}
		}
		return ids
	}
}

// AddSilence begins one. Its id and time are set, and it is on disk when it holds. An error wraps silence.ErrInvalid or
// silence.ErrTooMany, or is about the disk.
func (d *Dispatcher) AddSilence(s silence.Silence) (silence.Silence, error) {
	now := d.opt.Now()
	s.ID, s.Created = strings.ToLower(rand.Text()[:16]), now.UTC()
	if s.Starts.IsZero() {
		s.Starts = s.Created
	}
	held := &heldSilence{Silence: s}
	if err := held.check(); err != nil {
		return s, err
	}
	if !now.Before(s.Ends) {
		return s, fmt.Errorf("%w: it has ended already", silence.ErrInvalid)
	}
	d.mu.Lock()
	d.silences.forget(now)
	if len(d.silences.list) >= silence.Max {
		d.mu.Unlock()
		return s, silence.ErrTooMany
	}
	d.silences.list = append(d.silences.list, held)
	err := d.saveNow()
	if err != nil {
		d.mu.Lock()
		d.silences.list = slices.DeleteFunc(d.silences.list, func(x *heldSilence) bool { return x == held })
		d.changes.all() // another save may have written it meanwhile
		d.mu.Unlock()
		return s, fmt.Errorf("save silence: %w", err)
	}
	return held.Silence, nil
}

// ExpireSilence ends one now. One that has ended stays as it is.
func (d *Dispatcher) ExpireSilence(id string) (silence.Silence, error) {
	now := d.opt.Now().UTC()
	d.mu.Lock()
	i := slices.IndexFunc(d.silences.list, func(x *heldSilence) bool { return x.ID == id })
	if i < 0 {
		d.mu.Unlock()
		return silence.Silence{}, silence.ErrNotFound
	}
	before := d.silences.list[i]
	if before.State(now) == silence.Expired {
		d.mu.Unlock()
		return before.Silence, nil
	}
	s := *before
	s.Ends = now
	if s.Starts.After(now) {
		s.Starts = now.Add(-time.Nanosecond)
	}
	d.silences.list[i] = &s
	if err := d.saveNow(); err != nil {
		d.mu.Lock()
		if i := slices.Index(d.silences.list, &s); i >= 0 {
			d.silences.list[i] = before
			d.changes.all() // another save may have written it meanwhile
		}
		d.mu.Unlock()
		return s.Silence, fmt.Errorf("save silence: %w", err)
	}
	return s.Silence, nil
}

// saveNow unlocks the mutex, which is held, and waits until what it guards is on disk.
func (d *Dispatcher) saveNow() error {
	d.changes.all()
	want := d.changes.version
	d.mu.Unlock()
	return d.saveVersion(want)
}
