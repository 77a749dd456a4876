package slo

// Cause is an SLO whose fault the SLO that declares it suffers from. While the cause pages, the declaring SLO does not.
type Cause struct {
	SLO ID
	// Group fixes values of the cause's groups, by the name in its GroupBy.
	Group map[string]string
	// Affects are the values of the declaring SLO's groups that suffer, by the name in its GroupBy; without values all of
	// them do. What neither Group nor Affects names must be equal in both.
	Affects map[string][]string
}
