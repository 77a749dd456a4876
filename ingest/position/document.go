package position

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// documentVersion is the format of a document. Format 1 has no backlogs.
const documentVersion = 2

// document is the positions of an engine for people and for another engine: `sloengine positions export` writes it.
type document struct {
	Version   int            `json:"version"`
	Positions []documentLine `json:"positions"`
}

type documentLine struct {
	Source    string            `json:"source"`
	Topic     string            `json:"topic"`
	TopicID   string            `json:"topic_id,omitempty"` // 32 hexadecimal digits
	Partition int32             `json:"partition"`
	Losses    uint32            `json:"losses_in_broker,omitempty"`
	Epoch     *int32            `json:"leader_epoch,omitempty"`
	Backlog   int64             `json:"backlog,omitempty"` // the offset before which messages were there at first
	Counted   [][2]int64        `json:"counted"`           // from the first offset up to the second, which is not included
	Partial   []documentPartial `json:"partial,omitempty"`
}

type documentPartial struct {
	Offset int64   `json:"offset"`
	Events []int32 `json:"events"`
}

// WriteDocument writes the positions of a source, or of all if source is empty, as JSON.
func (b *Book) WriteDocument(w io.Writer, source string) error {
	d := document{Version: documentVersion, Positions: []documentLine{}}
	for _, name := range b.Sources() {
		if source != "" && name != source {
			continue
		}
		for _, p := range b.Of(name) {
			line := documentLine{Source: name, Topic: p.Stream.Name, Partition: p.Stream.Partition, Losses: p.Generation,
				Backlog: p.Backlog, Counted: [][2]int64{}}
			if p.Epoch != NoEpoch {
				line.Epoch = &p.Epoch
			}
			if p.Stream.ID != [16]byte{} {
				line.TopicID = hex.EncodeToString(p.Stream.ID[:])
			}
			for _, r := range p.Ranges {
				line.Counted = append(line.Counted, [2]int64{r.From, r.To})
			}
			for _, m := range p.Partial {
				line.Partial = append(line.Partial, documentPartial{m.Offset, m.Done})
			}
			d.Positions = append(d.Positions, line)
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

// ReadDocument adds a document of WriteDocument to the Book. It refuses a stream of which the Book has another
// incarnation of the topic: the engines did not read the same one.
func (b *Book) ReadDocument(data []byte) error {
	var d document
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return fmt.Errorf("invalid positions: %w", err)
	}
	if d.Version < 1 || d.Version > documentVersion {
		return fmt.Errorf("positions have format %d, and this program reads formats 1 to %d", d.Version, documentVersion)
	}
	for i := range d.Positions {
		line := &d.Positions[i]
		p, err := line.progress()
		if err == nil {
			err = b.add(line.Source, p)
		}
		if err != nil {
			return fmt.Errorf("invalid positions[%d] (source %q, topic %q, partition %d): %w", i, line.Source,
				line.Topic, line.Partition, err)
		}
	}
	return nil
}

func (l *documentLine) progress() (p Progress, err error) {
	if l.Source == "" || l.Topic == "" || l.Partition < 0 {
		return p, errors.New("source, topic and partition are required")
	}
	p.Stream = Stream{Name: l.Topic, Partition: l.Partition}
	p.Generation, p.Epoch, p.Backlog = l.Losses, NoEpoch, max(l.Backlog, 0)
	if l.Epoch != nil {
		p.Epoch = *l.Epoch
	}
	if l.TopicID != "" {
		id, err := hex.DecodeString(l.TopicID)
		if err != nil || len(id) != len(p.Stream.ID) {
			return p, fmt.Errorf("topic_id %q is invalid (want 32 hexadecimal digits)", l.TopicID)
		}
		p.Stream.ID = [16]byte(id)
	}
	for _, c := range l.Counted {
		if c[0] < 0 || c[1] <= c[0] {
			return p, fmt.Errorf("counted range [%d, %d] is empty or negative", c[0], c[1])
		}
		p.addRange(Range{c[0], c[1]})
	}
	for _, m := range l.Partial {
		if m.Offset < 0 || len(m.Events) == 0 || slices.Min(m.Events) < 0 {
			return p, fmt.Errorf("partial message %d is invalid", m.Offset)
		}
		p.addPartial(Partial{m.Offset, m.Events})
	}
	return p, nil
}

// add is Apply for one stream, which must not replace another incarnation of its topic.
func (b *Book) add(source string, p Progress) error {
	if e := b.sources[source][place{p.Stream.Name, p.Stream.Partition}]; e != nil && e.Stream.ID != p.Stream.ID {
		return fmt.Errorf(
			"its topic id %x differs from %x, which another engine read (the topic was created again: remove the older one)",
			p.Stream.ID, e.Stream.ID)
	}
	return b.Apply(Append(nil, source, []Progress{p}))
}
