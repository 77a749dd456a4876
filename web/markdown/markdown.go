// Package markdown shows the Markdown of notes and updates. The text comes from outside: markup that it contains is
// left out, and no image is loaded from anywhere.
//
// It does not know what a text is about.
package markdown

import (
	"bytes"
	"html/template"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/sloengine/sloengine/web/format"
)

// maxText bounds what is rendered, in characters. Longer texts end in an ellipsis.
const maxText = 16 << 10

// Bounds of what is parsed.
const (
	maxDepth = 16  // quotes and lists inside each other
	maxLinks = 256 // of the form [text](address)
)

var renderer = goldmark.New(
	goldmark.WithExtensions(extension.Linkify, extension.Strikethrough),
	goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(tame{}, 100))),
)

// Render makes HTML of a text. Raw HTML, images and links with other schemes than http, https and mailto do not
// survive. A text that is too costly to parse is shown as it was written.
func Render(s string) template.HTML {
	src := []byte(clean(s))
	var b bytes.Buffer
	if costly(src) || renderer.Convert(src, &b) != nil {
		return template.HTML("<p>" + template.HTMLEscapeString(string(src)) + "</p>\n")
	}
	return template.HTML(b.String()) // goldmark has escaped it and left raw HTML out
}

// clean makes invisible and control characters visible, line by line.
func clean(s string) string {
	var b strings.Builder
	left := maxText
	for line := range strings.Lines(s) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")
		line = format.Safe(line, left)
		b.WriteString(line + "\n")
		if left -= len([]rune(line)) + 1; left <= 0 {
			break
		}
	}
	return b.String()
}

// costly reports whether a text would take long to parse, or nests deeper than browsers show. The time that the parser
// takes grows with the square of the depth of quotes and lists, and of the number of links that are never closed.
func costly(src []byte) bool {
	if bytes.Count(src, []byte("](")) > maxLinks {
		return true
	}
	for line := range bytes.Lines(src) {
		if n := markers.FindIndex(line); n != nil && len(marker.FindAll(line[:n[1]], maxDepth+1)) > maxDepth {
			return true
		}
	}
	return false
}

// marker opens a quote or a list item.
var (
	marker  = regexp.MustCompile(`>|[-+*]|[0-9]+[.)]`)
	markers = regexp.MustCompile(`^(?: *(?:>|[-+*] |[0-9]+[.)] ))+`)
)

// tame changes the parsed text: headings stand below those of the page, links tell nobody where the reader comes from,
// images become links, and links within this engine become texts.
type tame struct{}

// firstLevel is the level of the text's highest headings.
const firstLevel = 4

func (tame) Transform(doc *ast.Document, _ text.Reader, _ parser.Context) {
	var links []ast.Node // and images
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Heading:
			if entering {
				n.Level = min(6, n.Level+firstLevel-1)
			}
		case *ast.Link, *ast.Image:
			if entering {
				links = append(links, n)
			}
		case *ast.AutoLink:
			n.SetAttributeString("rel", rel)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return // the walker above returns none
	}
	for _, n := range links {
		var to []byte
		switch n := n.(type) {
		case *ast.Link:
			to = n.Destination
		case *ast.Image:
			to = n.Destination
		}
		var into ast.Node = ast.NewTextBlock() // which shows nothing of its own
		if outside(to) {
			link := ast.NewLink()
			link.Destination = to
			link.SetAttributeString("rel", rel)
			into = link
		}
		for c := n.FirstChild(); c != nil; {
			next := c.NextSibling()
			into.AppendChild(into, c)
			c = next
		}
		n.Parent().ReplaceChild(n.Parent(), n, into)
	}
}

var rel = []byte("noopener noreferrer nofollow")

// outside reports whether an address leads to another site by a known scheme. A relative address would act with the
// reader's rights on this engine.
func outside(dest []byte) bool {
	for _, scheme := range []string{"http://", "https://", "mailto:"} {
		if len(dest) >= len(scheme) && strings.EqualFold(string(dest[:len(scheme)]), scheme) {
			return true
		}
	}
	return false
}
