package spec

import (
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
)

type doc = shape.Shape

// Patterns that only the description needs.
const (
	idPattern         = `^([a-z0-9._-]*[a-z0-9][a-z0-9._-]*/)?[a-z0-9._-]*[a-z0-9][a-z0-9._-]*$`
	anyCasePattern    = `^[A-Za-z0-9._-]*[A-Za-z0-9][A-Za-z0-9._-]*$`
	percentilePattern = `^p[0-9]{2}(\.[0-9]+)?$`
	instantPattern    = `^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:.]+([Zz]|[+-][0-9]{2}:[0-9]{2})$`
)

var (
	textDoc       = doc{Kind: shape.Text}
	nameDoc       = doc{Kind: shape.Text, Pattern: namePattern.String(), Note: "name"}
	zoneDoc       = doc{Kind: shape.Text, Note: "IANA time zone"}
	matchersDoc   = doc{Kind: shape.Text, Note: "label matchers"}
	queryDoc      = doc{Kind: shape.Text, Note: "PromQL"}
	labelDoc      = doc{Kind: shape.Text, Pattern: attributePattern.String(), Note: "attribute"}
	percentDoc    = doc{Kind: shape.Number, Quoted: true, Min: "1", Max: "100", Above: true, Below: true, Note: "percentage"}
	shareDoc      = doc{Kind: shape.Number, Quoted: true, Min: "0", Max: "1000", Above: true, Below: true, Note: "percentage"}
	amountDoc     = doc{Kind: shape.Number, Quoted: true, Min: "0", Above: true, Note: "amount of money"}
	labelsDoc     = doc{Kind: shape.Map, Of: &textDoc, Pattern: labelPattern.String()}
	anyCaseDoc    = doc{Kind: shape.Text, Pattern: anyCasePattern, Note: "name"}
	currencyDoc   = doc{Kind: shape.Text, Pattern: currencyPattern.String(), Note: "currency of ISO 4217"}
	instantDoc    = doc{Kind: shape.Text, Pattern: instantPattern, Note: "RFC 3339 time"}
	falsePagesDoc = doc{Kind: shape.Text, Pattern: falsePagesPattern.String(), Note: "pages per year"}
	idDoc         = doc{Kind: shape.Text, Pattern: idPattern, Note: "name or service/name"}
	counterDoc    = doc{Kind: shape.Text, Note: "selector of a counter"}
	ruleDoc       = doc{Kind: shape.Text, Note: "RFC 5545 rule"}
	hoursDoc      = doc{Kind: shape.Text, Note: "weekly hours"}
)

func wholeShape(least, most string) doc {
	return doc{Kind: shape.Whole, Quoted: true, Min: least, Max: most}
}
func numberShape(least, most string) doc {
	return doc{Kind: shape.Number, Quoted: true, Min: least, Max: most}
}
func wordsShape(list ...string) doc { return doc{Kind: shape.Text, Words: list} }
func listShape(of doc) doc          { return doc{Kind: shape.List, Of: &of} }
func eitherShape(shapes ...doc) doc { return doc{Kind: shape.Either, Or: shapes} }
