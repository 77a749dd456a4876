package incident

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Kind says what an operation does. The values are part of the format of the log.
type Kind string

// The kinds of operation.
const (
	Fire       Kind = "fire"        // an alert fires: it joins an incident or opens one
	Clear      Kind = "clear"       // an alert is over
	OpenByHand Kind = "open"        // a person opens an incident
	AckIt      Kind = "ack"         // a person acknowledges it
	AddNote    Kind = "note"        // a remark for the team
	AddUpdate  Kind = "update"      // news for those concerned
	ResolveIt  Kind = "resolve"     // a person says that it is over
	Publish    Kind = "publish"     // whether the public page shows it
	LinkPost   Kind = "post_mortem" // where its post-mortem is
	EditIt     Kind = "edit"        // changes title, severity or owner
	Measured   Kind = "spent"       // what it cost of the error budgets
	Erase      Kind = "erase"       // removes personal data
)

// Operation is one change of the book. Which fields count depends on Kind.
type Operation struct {
	Kind Kind   `json:"do"`
	ID   string `json:"id,omitempty"` // of the incident; Fire, OpenByHand and an Erase by person have none

	Alert   *Alert    `json:"alert,omitempty"` // Fire; of Clear only the fingerprint and Resolved count
	Title   string    `json:"title,omitempty"` // Fire, OpenByHand, EditIt; Publish: the public title
	Team    string    `json:"team,omitempty"`  // Fire, OpenByHand, AckIt
	Onset   time.Time `json:"onset,omitzero"`  // Fire, OpenByHand
	OnsetBy string    `json:"onset_by,omitempty"`

	Key      string   `json:"key,omitempty"`      // OpenByHand: makes it idempotent
	Service  string   `json:"service,omitempty"`  // OpenByHand
	Severity Severity `json:"severity,omitempty"` // OpenByHand, EditIt
	Owner    string   `json:"owner,omitempty"`    // EditIt
	Status   Status   `json:"status,omitempty"`   // AddUpdate; StatusResolved also resolves the incident

	By string `json:"by,omitempty"` // who it is; Erase: whose data, of all incidents if ID is ""
	// Erase: By is a value, such as the number of a customer, and no part of a longer one
	Whole  bool    `json:"whole,omitempty"`
	How    string  `json:"how,omitempty"`  // AckIt
	Text   string  `json:"text,omitempty"` // AddNote, AddUpdate (optional with a status); LinkPost: the URL
	Public bool    `json:"public,omitempty"`
	Spent  []Spent `json:"spent,omitempty"`
}

// Batch is the payload of one record of the log. All of it is applied at once.
type Batch struct {
	Operations []Operation `json:"operations"`
	// Cursor is the time of the alerts that the batch was derived from; zero if it was made by a person. Every alert that
	// fired up to it has been applied.
	Cursor time.Time `json:"cursor,omitzero"`
}

// Encode makes the payload of a record.
func (b *Batch) Encode() ([]byte, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode incident record: %w", err)
	}
	return data, nil
}

// ParseBatch reads the payload of a record.
func ParseBatch(payload []byte) (b Batch, err error) {
	if err := json.Unmarshal(payload, &b); err != nil {
		return b, fmt.Errorf("invalid incident record: %w", err)
	}
	return b, nil
}

// Errors of operations.
var (
	ErrNotFound = errors.New("there is no incident with this id; it may have been removed after its retention")
	ErrState    = errors.New("the incident does not allow this")
	ErrFull     = errors.New("no more room")
	ErrInvalid  = errors.New("invalid operation")
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// Validate checks the fields of an operation. An error wraps ErrInvalid and says what is wrong.
func (o *Operation) Validate() error {
	text := func(name, value string, most int, needed bool) error {
		switch {
		case needed && strings.TrimSpace(value) == "":
			return invalid("%s is missing", name)
		case utf8.RuneCountInString(value) > most:
			return invalid("%s has %d characters (want at most %d)", name, utf8.RuneCountInString(value), most)
		case !utf8.ValidString(value):
			return invalid("%s is not valid UTF-8", name)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' }):
			return invalid("%s contains a control character", name)
		case most < MaxText && strings.ContainsAny(value, "\n\r\t"):
			return invalid("%s has more than one line", name)
		}
		return nil
	}
	errs := []error{text("team", o.Team, MaxName, false)}
	switch o.Kind {
	case Fire, Clear:
		if o.Alert == nil || o.Alert.Fingerprint == "" {
			errs = append(errs, invalid("alert is missing"))
		}
		return errors.Join(errs...) // by the engine itself, see Reconcile
	case OpenByHand:
		errs = append(errs, text("title", o.Title, MaxTitle, true), text("service", o.Service, MaxName, false),
			text("by", o.By, MaxName, true), text("key", o.Key, MaxName, true))
		if o.Severity != Critical && o.Severity != Warning {
			errs = append(errs, invalid("severity %q (want %s or %s)", o.Severity, Critical, Warning))
		}
	case AckIt:
		errs = append(errs, text("by", o.By, MaxName, true))
		if !slices.Contains([]string{ByLink, ByAPI, ByPage}, o.How) {
			errs = append(errs, invalid("how %q (want %s, %s or %s)", o.How, ByLink, ByAPI, ByPage))
		}
	case AddNote, AddUpdate:
		errs = append(errs, text("by", o.By, MaxName, true), text("text", o.Text, MaxText, o.Status == ""))
		if o.Status != "" && !slices.Contains(Statuses, o.Status) {
			errs = append(errs, invalid("status %q (want investigating, identified, monitoring or resolved)", o.Status))
		}
	case ResolveIt:
		errs = append(errs, text("by", o.By, MaxName, true))
	case LinkPost:
		errs = append(errs, text("url", o.Text, MaxURL, false))
		if u, err := url.Parse(o.Text); o.Text != "" &&
			(err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
			errs = append(errs, invalid("url %q (want an address such as https://wiki.example.org/post-mortem)", o.Text))
		}
	case Erase:
		errs = append(errs, text("by", o.By, MaxName, o.ID == ""))
	case Publish:
		errs = append(errs, text("title", o.Title, MaxTitle, false))
	case EditIt:
		errs = append(errs, text("by", o.By, MaxName, true), text("title", o.Title, MaxTitle, false),
			text("owner", o.Owner, MaxName, false))
		if o.Severity != "" && o.Severity != Critical && o.Severity != Warning {
			errs = append(errs, invalid("severity %q (want %s or %s)", o.Severity, Critical, Warning))
		}
		if strings.TrimSpace(o.Title+o.Owner) == "" && o.Severity == "" {
			errs = append(errs, invalid("title, severity and owner are missing (want at least one)"))
		}
	case Measured:
	default:
		errs = append(errs, invalid("%q is unknown", o.Kind))
	}
	if o.ID == "" && !slices.Contains([]Kind{OpenByHand, Erase}, o.Kind) {
		errs = append(errs, invalid("id is missing"))
	}
	return errors.Join(errs...)
}

// Allowed reports why an operation would be refused by an incident as it is; nil if it would not. Opening, firing and
// clearing are allowed always.
func (o *Operation) Allowed(i *Incident) error {
	switch {
	case o.Kind == AckIt && i.State == Resolved:
		return fmt.Errorf("%w: %s is resolved", ErrState, i.ID)
	case o.Kind == AckIt && i.Ack != nil:
		return fmt.Errorf("%w: %s was acknowledged by %s", ErrState, i.ID, i.Ack.By)
	case (o.Kind == ResolveIt || o.Kind == AddUpdate && o.Status != "" && o.Status != StatusResolved) &&
		i.State == Resolved:
		return fmt.Errorf("%w: %s is resolved", ErrState, i.ID)
	case o.Kind == AddNote && len(i.Notes) >= MaxNotes, o.Kind == AddUpdate && len(i.Updates) >= MaxNotes,
		o.Kind == EditIt && len(i.Edits) >= MaxNotes:
		return fmt.Errorf("%w: %s has %d entries", ErrFull, i.ID, MaxNotes)
	}
	return nil
}

// Removed is what stands in the place of personal data that was erased.
const Removed = "(removed)"

// change applies an operation on one incident, which the caller owns. Slices are never changed in place: published
// incidents share them.
func (o *Operation) change(i *Incident, at time.Time) {
	if o.Allowed(i) != nil {
		return
	}
	switch o.Kind {
	case AckIt:
		i.Ack = &Ack{Time: at, By: o.By, Team: o.Team, How: o.How}
		i.State = Acknowledged
	case AddNote:
		i.Notes = append(slices.Clip(i.Notes), Note{at, o.By, o.Text})
	case AddUpdate:
		i.Updates = append(slices.Clip(i.Updates), Update{at, o.By, o.Text, o.Public, o.Status})
		if o.Status == StatusResolved && i.State != Resolved {
			i.State, i.Resolved = Resolved, &Resolution{Time: at, By: o.By}
		}
	case ResolveIt:
		i.State, i.Resolved = Resolved, &Resolution{Time: at, By: o.By}
	case EditIt:
		i.edit(o, at)
	case Publish:
		i.Public = o.Public
		if o.Title != "" {
			i.PublicTitle = o.Title
		}
	case LinkPost:
		i.PostMortem = o.Text
	case Measured:
		i.Spent, i.SpentDone = o.Spent, i.State == Resolved
	case Erase:
		i.erase(o.By, o.Whole)
	}
}

// edit changes what a person sets, and notes the change.
func (i *Incident) edit(o *Operation, at time.Time) {
	e := Edit{Time: at, By: o.By}
	if title := strings.TrimSpace(o.Title); title != "" && title != i.Title {
		i.Title, e.Title = title, title
	}
	if o.Severity != "" && o.Severity != i.Severity {
		if o.Severity == Critical && i.Ack == nil {
			i.Raised = at // the time to acknowledge counts from here
		}
		i.Severity, e.Severity = o.Severity, o.Severity
	}
	if owner := strings.TrimSpace(o.Owner); owner != "" && owner != i.ResponseOwner() {
		i.Owner, e.Owner = owner, owner
	}
	if e.Title != "" || e.Severity != "" || e.Owner != "" {
		i.Edits = append(slices.Clip(i.Edits), e)
	}
}

// titled reports whether a person has set the title of the incident.
func (i *Incident) titled() bool {
	return !i.Automated || slices.ContainsFunc(i.Edits, func(e Edit) bool { return e.Title != "" })
}

// stands reports whether a text holds a name; with whole not as a part of a longer word or number.
func stands(text, name string, whole bool) bool {
	if !whole {
		return strings.Contains(text, name)
	}
	inside := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }
	for at := 0; ; {
		k := strings.Index(text[at:], name)
		if k < 0 {
			return false
		}
		at += k
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[at+len(name):])
		if !inside(before) && !inside(after) {
			return true
		}
		at += len(name)
	}
}

// mentions reports whether a person's name stands anywhere in the incident.
func (i *Incident) mentions(person string, whole bool) bool {
	return i.OpenedBy == person || i.Owner == person || stands(i.Title, person, whole) ||
		stands(i.PublicTitle, person, whole) || i.Ack != nil && i.Ack.By == person ||
		i.Resolved != nil && i.Resolved.By == person ||
		slices.ContainsFunc(i.Notes, func(n Note) bool { return n.By == person || stands(n.Text, person, whole) }) ||
		slices.ContainsFunc(i.Updates, func(u Update) bool { return u.By == person || stands(u.Text, person, whole) }) ||
		slices.ContainsFunc(i.Edits, func(e Edit) bool {
			return e.By == person || e.Owner == person || stands(e.Title, person, whole)
		})
}

// erase removes a person from an incident: the name wherever it stands, what the person wrote, and texts of others that
// mention the name. "" stands for everybody.
func (i *Incident) erase(person string, whole bool) {
	is := func(name string) bool { return name != "" && (person == "" || name == person) }
	names := func(list ...*string) {
		for _, name := range list {
			if is(*name) {
				*name = Removed
			}
		}
	}
	titles := func(list ...*string) {
		for _, title := range list {
			if person != "" && stands(*title, person, whole) {
				*title = Removed
			}
		}
	}
	names(&i.OpenedBy, &i.Owner)
	titles(&i.Title, &i.PublicTitle)
	i.Edits = slices.Clone(i.Edits)
	for k := range i.Edits {
		names(&i.Edits[k].By, &i.Edits[k].Owner)
		titles(&i.Edits[k].Title)
	}
	if i.Ack != nil && is(i.Ack.By) {
		ack := *i.Ack
		ack.By = Removed
		i.Ack = &ack
	}
	if i.Resolved != nil && is(i.Resolved.By) {
		end := *i.Resolved
		end.By = Removed
		i.Resolved = &end
	}
	gone := func(by, text *string) {
		if is(*by) || person != "" && stands(*text, person, whole) {
			*by, *text = Removed, Removed
		}
	}
	i.Notes, i.Updates = slices.Clone(i.Notes), slices.Clone(i.Updates)
	for k := range i.Notes {
		gone(&i.Notes[k].By, &i.Notes[k].Text)
	}
	for k := range i.Updates {
		gone(&i.Updates[k].By, &i.Updates[k].Text)
	}
}
