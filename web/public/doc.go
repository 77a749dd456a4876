// Package public serves what anybody may see: the public status page, the same as JSON, and badges. Labels of an SLO
// choose what is public. It asks for no permission, and says nothing of what was not chosen.
package public
