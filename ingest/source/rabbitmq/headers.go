package rabbitmq

import (
	"fmt"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/zeebo/xxh3"
)

// headers are those of a message as an Intake reads them: texts as they are, other values as they are printed.
type headers []header

type header struct {
	name  string
	value []byte
}

func (h headers) Len() int                  { return len(h) }
func (h headers) At(i int) (string, []byte) { return h[i].name, h[i].value }

// newHeaders leaves out lists and tables, which no attribute can hold.
func newHeaders(t amqp.Table) headers {
	h := make(headers, 0, len(t))
	for name, value := range t {
		switch v := value.(type) {
		case string:
			h = append(h, header{name, []byte(v)})
		case []byte:
			h = append(h, header{name, v})
		case nil, []any, amqp.Table:
		default:
			h = append(h, header{name, fmt.Append(nil, v)})
		}
	}
	slices.SortFunc(h, func(a, b header) int { return strings.Compare(a.name, b.name) }) // a table has no order
	return h
}

// hashed is a name for a message in a queue, of letters and digits.
func hashed(queue, id string) string {
	sum := xxh3.HashString128(queue + "\x00" + id).Bytes()
	return fmt.Sprintf("%x", sum)
}
