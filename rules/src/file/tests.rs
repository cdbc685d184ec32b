use super::RuleFile;
use crate::diag::render;

fn errors(source: &str) -> String {
    match RuleFile::parse(source) {
        Ok(_) => "no error".to_string(),
        Err(wrong) => render("rule.yaml", source, &wrong),
    }
}
