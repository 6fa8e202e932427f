use super::*;

#[test]
fn every_kind_has_as_many_cells_as_columns() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    for kind in kinds() {
        for object in [serde_json::json!({}), Value::Null, serde_json::json!({"metadata": {"name": "a"}})] {
            let cells = kind.strategy.cells(&object, now);
            assert_eq!(cells.len(), kind.strategy.columns().len(), "{}", kind.kind);
        }
    }
}
