//! A graph as text for display, and in the language of Graphviz.

use std::fmt::Write as _;

use super::{Graph, GraphNode, Placement};

impl Graph {
    /// For display: the probes, the placement of folds of hits with reasons, every part with its placement,
    /// and the named parts.
    pub fn text(&self) -> String {
        let mut out = String::new();
        if !self.probes.is_empty() {
            out.push_str("probes\n");
        }
        for line in self.probe_lines() {
            let _ = writeln!(out, "  {line}");
        }
        let folds = self
            .folds
            .iter()
            .flat_map(|(rule, folds)| folds.iter().map(move |fold| (rule, fold)));
        for (place, (rule, fold)) in folds.enumerate() {
            if place == 0 {
                out.push_str("folds\n");
            }
            let (at, window, of, why) = (fold.placement, &fold.window, &fold.fold, fold.why);
            let _ = writeln!(out, "  {at:<11} {of}   [{rule}.{window}]: {why}");
        }
        out.push_str("parts\n");
        let width = self.nodes.len().saturating_sub(1).to_string().len() + 1;
        for (place, node) in self.nodes.iter().enumerate() {
            let number = format!("#{place}");
            let at = node
                .place
                .map_or_else(|| "constant".to_string(), |place| place.to_string());
            let window = match node.window.as_str() {
                "" => String::new(),
                window => format!("   [{window}]"),
            };
            let _ = writeln!(out, "  {number:<width$} {at:<11} {}{window}", self.formula(node));
        }
        out.push_str("names\n");
        for named in &self.named {
            let _ = writeln!(out, "  {}.{} = #{}", named.rule, named.name, named.node);
        }
        out
    }

    /// A part with references to its parts: `#1 + #2`, `max(#3)`.
    fn formula(&self, node: &GraphNode) -> String {
        let parts: Vec<String> = node.parts.iter().map(|part| format!("#{part}")).collect();
        match (node.label.as_str(), parts.as_slice()) {
            (label, []) => label.to_string(),
            ("[ ]", [of, key]) => format!("{of}[{key}]"),
            ("-" | "not", [of]) => format!("{} {of}", node.label),
            (label, [a, b]) if !label.starts_with(char::is_alphabetic) || is_word(label) => {
                format!("{a} {label} {b}")
            }
            (label, parts) => format!("{label}({})", parts.join(", ")),
        }
    }

    /// For Graphviz: one cluster for each placement.
    pub fn dot(&self) -> String {
        let mut out = String::from("digraph plan {\n  rankdir=BT;\n  node [shape=box];\n");
        for place in Placement::ALL {
            let _ = writeln!(out, "  subgraph cluster_{place} {{\n    label=\"{place}\";");
            let nodes = self.nodes.iter().enumerate();
            for (number, node) in nodes.filter(|(_, node)| node.place == Some(place)) {
                let _ = writeln!(out, "    n{number} [label=\"{}\"];", escaped(&node.label));
            }
            out.push_str("  }\n");
        }
        for (number, node) in self.nodes.iter().enumerate() {
            if node.place.is_none() {
                let label = escaped(&node.label);
                let _ = writeln!(out, "  n{number} [label=\"{label}\", shape=plaintext];");
            }
            for part in &node.parts {
                let _ = writeln!(out, "  n{part} -> n{number};");
            }
        }
        for (number, named) in self.named.iter().enumerate() {
            let label = escaped(&format!("{}.{}", named.rule, named.name));
            let _ = writeln!(out, "  m{number} [label=\"{label}\", shape=ellipse];");
            let _ = writeln!(out, "  n{} -> m{number};", named.node);
        }
        out.push_str("}\n");
        out
    }
}

fn is_word(label: &str) -> bool {
    ["and", "or", "where"].contains(&label)
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
