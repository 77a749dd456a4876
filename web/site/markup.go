package site

import (
	"html/template"
	"strings"

	"github.com/sloengine/sloengine/web/format"
)

// Markup writes the parts of a page that it has hundreds of, which templates would draw slowly. Constants are markup.
// Anything else is text and goes through Text.
type Markup struct{ b strings.Builder }

// Text escapes text for the place between tags or between the quotes of an attribute. An address must be one of Href,
// which begins with a slash and has a scheme in none of them.
func Text(s string) template.HTML { return template.HTML(template.HTMLEscapeString(s)) }

// Grow makes room for n bytes.
func (m *Markup) Grow(n int) { m.b.Grow(n) }

// Add writes the parts.
func (m *Markup) Add(parts ...template.HTML) {
	for _, p := range parts {
		m.b.WriteString(string(p))
	}
}

// AddIf writes the parts if cond holds.
func (m *Markup) AddIf(cond bool, parts ...template.HTML) {
	if cond {
		m.Add(parts...)
	}
}

// Labels are the labels of a group.
func Labels(of []format.Label) template.HTML {
	var m Markup
	for _, l := range of {
		m.Add(`<span class="label"><span class="key"><bdi>`, Text(l.Name), `</bdi></span> <bdi title="`, Text(l.Title), `">`,
			Text(l.Value), `</bdi></span>`)
	}
	return m.HTML()
}

// HTML is all that was written.
func (m *Markup) HTML() template.HTML { return template.HTML(m.b.String()) }
