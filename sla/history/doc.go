// Package history reads what was counted in past times: by day or by step of a chart, with planned maintenance taken
// out, durations as histograms, and traffic by attribute.
//
// It asks for counts through a CountsFunc and does not know who answers. It judges nothing and shows nothing: package
// sla/report scores past periods, and the packages below web draw them.
package history
