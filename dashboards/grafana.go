package dashboards

// The types of Grafana's classic dashboard model, as far as it is used here.
// Field names and defaults are Grafana's; a field that Grafana fills in by itself
// is left out.

// schemaVersion is that of Grafana 10.4. Newer ones migrate it at import, and
// older ones read it, for nothing newer than Grafana 9 is used.
const schemaVersion = 39

type model struct {
	UID           string      `json:"uid"`
	Title         string      `json:"title"`
	Description   string      `json:"description"`
	Tags          []string    `json:"tags"`
	SchemaVersion int         `json:"schemaVersion"`
	Version       int         `json:"version"`
	Editable      bool        `json:"editable"`
	GraphTooltip  int         `json:"graphTooltip"` // 1: one crosshair for all panels
	Refresh       string      `json:"refresh"`
	Time          timeRange   `json:"time"`
	Timezone      string      `json:"timezone"`
	Templating    templating  `json:"templating"`
	Annotations   annotations `json:"annotations"`
	Links         []link      `json:"links"`
	Panels        []*panel    `json:"panels"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type dataSource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// prometheus is the source of every query: whatever the reader picked.
var prometheus = dataSource{Type: "prometheus", UID: "${datasource}"}

type templating struct {
	List []variable `json:"list"`
}

type variable struct {
	Name        string      `json:"name"`
	Label       string      `json:"label,omitempty"`
	Description string      `json:"description,omitempty"`
	Type        string      `json:"type"` // datasource, query or textbox
	DataSource  *dataSource `json:"datasource,omitempty"`
	Definition  string      `json:"definition,omitempty"`
	Query       any         `json:"query"` // labelQuery, or text
	Regex       string      `json:"regex,omitempty"`
	Refresh     int         `json:"refresh,omitempty"` // 2: whenever the time range changes
	Sort        int         `json:"sort,omitempty"`    // 1: by name
	Multi       bool        `json:"multi,omitempty"`
	IncludeAll  bool        `json:"includeAll,omitempty"`
	AllValue    string      `json:"allValue,omitempty"`
	Current     current     `json:"current"`
	Hide        int         `json:"hide"`
}

type labelQuery struct {
	Query string `json:"query"`
	RefID string `json:"refId"`
}

// current is what is picked at first: nothing, which leaves the choice to
// Grafana, a text, or a list of texts where several can be picked.
type current struct {
	Text  any `json:"text,omitempty"`
	Value any `json:"value,omitempty"`
}

type annotations struct {
	List []annotation `json:"list"`
}

type annotation struct {
	Name        string     `json:"name"`
	DataSource  dataSource `json:"datasource"`
	Enable      bool       `json:"enable"`
	Hide        bool       `json:"hide"`
	IconColor   string     `json:"iconColor"`
	Expr        string     `json:"expr"`
	Step        string     `json:"step"`
	TitleFormat string     `json:"titleFormat"`
	TagKeys     string     `json:"tagKeys"`
	TextFormat  string     `json:"textFormat"`
}

// link is a link of a dashboard, a panel or a value.
type link struct {
	Title       string   `json:"title"`
	Type        string   `json:"type,omitempty"` // of a dashboard's link: link or dashboards
	URL         string   `json:"url,omitempty"`
	Tooltip     string   `json:"tooltip,omitempty"`
	Icon        string   `json:"icon,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	AsDropdown  bool     `json:"asDropdown,omitempty"`
	IncludeVars bool     `json:"includeVars,omitempty"`
	KeepTime    bool     `json:"keepTime,omitempty"`
	TargetBlank bool     `json:"targetBlank"`
}

// panel is a panel or, with Type "row", the title line of those below it.
type panel struct {
	ID              int              `json:"id"`
	Type            string           `json:"type"`
	Title           string           `json:"title"`
	Description     string           `json:"description,omitempty"`
	GridPos         gridPos          `json:"gridPos"`
	DataSource      *dataSource      `json:"datasource,omitempty"`
	Interval        string           `json:"interval,omitempty"` // shortest step
	MaxDataPoints   int              `json:"maxDataPoints,omitempty"`
	Targets         []target         `json:"targets,omitempty"`
	FieldConfig     *fieldConfig     `json:"fieldConfig,omitempty"`
	Options         any              `json:"options,omitempty"`
	Transformations []transformation `json:"transformations,omitempty"`
	Links           []link           `json:"links,omitempty"`

	// Of a row only.
	Collapsed *bool    `json:"collapsed,omitempty"`
	Panels    []*panel `json:"panels,omitempty"` // those that a collapsed row hides
}

type gridPos struct {
	X int `json:"x"`
	Y int `json:"y"`
	W int `json:"w"`
	H int `json:"h"`
}

type target struct {
	RefID        string     `json:"refId"`
	DataSource   dataSource `json:"datasource"`
	Expr         string     `json:"expr"`
	LegendFormat string     `json:"legendFormat"`
	Format       string     `json:"format"` // time_series, table or heatmap
	Instant      bool       `json:"instant"`
	Range        bool       `json:"range"`
	EditorMode   string     `json:"editorMode"`
	Exemplar     bool       `json:"exemplar"`
}

type fieldConfig struct {
	Defaults  defaults   `json:"defaults"`
	Overrides []override `json:"overrides"`
}

type defaults struct {
	Unit       string     `json:"unit"`
	Decimals   *int       `json:"decimals,omitempty"`
	Min        *float64   `json:"min,omitempty"`
	Max        *float64   `json:"max,omitempty"`
	NoValue    string     `json:"noValue"`
	Color      color      `json:"color"`
	Thresholds thresholds `json:"thresholds"`
	Mappings   []mapping  `json:"mappings,omitempty"`
	Custom     any        `json:"custom,omitempty"`
	Links      []link     `json:"links,omitempty"`
}

type color struct {
	Mode       string `json:"mode"`
	FixedColor string `json:"fixedColor,omitempty"`
}

type thresholds struct {
	Mode  string `json:"mode"`
	Steps []step `json:"steps"`
}

// step colours values from Value up; the first step has none.
type step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// mapping shows words in place of values.
type mapping struct {
	Type    string                 `json:"type"`
	Options map[string]mappedValue `json:"options"`
}

type mappedValue struct {
	Text  string `json:"text"`
	Color string `json:"color,omitempty"`
	Index int    `json:"index"`
}

type override struct {
	Matcher    matcher    `json:"matcher"`
	Properties []property `json:"properties"`
}

type matcher struct {
	ID      string `json:"id"`
	Options string `json:"options"`
}

type property struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}

type transformation struct {
	ID      string `json:"id"`
	Options any    `json:"options"`
}

type organize struct {
	ExcludeByName map[string]bool   `json:"excludeByName"`
	IndexByName   map[string]int    `json:"indexByName"`
	RenameByName  map[string]string `json:"renameByName"`
}
