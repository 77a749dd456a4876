package send

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/sloengine/sloengine/ingest/event"
)

const (
	detectBytes = 64 << 10
	detectLines = 20
)

// detect tells the format from the first lines of a stream, and returns a reader
// that begins with them. It waits for as many lines as it takes, not for more: a
// followed file or a pipe may hold only one for a long time. mapped says that JSON is what a map reads.
func detect(name string, in io.Reader, mapped bool) (Format, io.Reader, error) {
	buffered := bufio.NewReaderSize(in, detectBytes)
	tried := 0 // bytes of whole lines looked at
	for {
		head, err := buffered.Peek(min(buffered.Buffered()+1, detectBytes))
		if err != nil && err != io.EOF {
			return "", nil, fmt.Errorf("read %s: %w", name, err)
		}
		last := err == io.EOF || len(head) == detectBytes
		head, _ = buffered.Peek(buffered.Buffered()) // what came along with it
		whole := bytes.LastIndexByte(head, '\n') + 1
		if last {
			whole = len(head)
		}
		if whole > tried || last {
			tried = whole
			switch format, ok := formatOf(head[:whole], last, mapped); {
			case format == "" && ok:
				return "", nil, usage("%s: these JSON lines are neither events nor a log of nginx, Caddy or Traefik "+
					"(set --map, or --format ndjson to see what is wrong with each line)", name)
			case ok:
				return format, buffered, nil
			}
		}
		if last || bytes.Count(head[:whole], []byte{'\n'}) >= detectLines {
			return "", nil, usage("%s: unknown input format (set --format)", name)
		}
	}
}

// formatOf tries the formats on whole lines; the first that reads a line has it.
// An input that ends without any is of any format. JSON that is something else is of none, which is certain, too.
func formatOf(head []byte, ended, mapped bool) (Format, bool) {
	trimmed := bytes.TrimSpace(bytes.TrimPrefix(head, []byte(event.BOM)))
	if len(trimmed) == 0 {
		return NDJSON, ended
	}
	if trimmed[0] == '[' { // some access logs begin with a time in brackets
		if first := bytes.TrimSpace(trimmed[1:]); len(first) == 0 || bytes.IndexByte([]byte("{[]"), first[0]) >= 0 {
			return JSON, true
		}
	}
	if mapped {
		return NDJSON, true
	}
	if trimmed[0] == '#' {
		return IIS, bytes.Contains(trimmed, []byte("#Fields:"))
	}
	lines := bytes.Split(trimmed, []byte{'\n'})
	if first := bytes.TrimSpace(lines[0]); first[0] == '{' && bytes.IndexByte([]byte("{,["), first[len(first)-1]) >= 0 {
		return JSON, true // an object over several lines
	}
	for _, line := range lines[:min(len(lines), detectLines)] {
		for _, format := range []Format{NginxJSON, Caddy, Traefik, Combined, Common, ALB, HAProxy} {
			parser, err := NewParser(format, ParserOptions{Service: "detect"})
			if err != nil || format == Caddy && !bytes.Contains(line, []byte(`"request"`)) { // others have a ts and a status
				continue
			}
			var e event.Event
			if parser.Parse(line, 0, &e) == nil {
				return format, true
			}
		}
	}
	if trimmed[0] != '{' {
		return "", false
	}
	if otherShape(lines[0]) {
		return "", true
	}
	// What begins as an object and is no nginx log is meant as events, even if
	// its lines have mistakes: those are reported one by one.
	return NDJSON, true
}

// otherShape reports whether a line is an object with members of its own and without one that every event has, if no
// option gives it.
func otherShape(line []byte) bool {
	for _, name := range []string{`"service"`, `"type"`, `"specversion"`} {
		if bytes.Contains(line, []byte(name)) {
			return false
		}
	}
	parser, err := NewParser(NDJSON, ParserOptions{Service: "detect", Type: "detect"})
	if err != nil {
		return false
	}
	err = parser.Parse(line, 0, &event.Event{})
	return err != nil && strings.Contains(err.Error(), string(event.CodeUnknownField))
}
