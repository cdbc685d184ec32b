//! What is serialized stays readable, because journals contain it.

use super::*;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

fn stays<T: Serialize + DeserializeOwned + PartialEq + Debug>(of: &T, written: &str) {
    assert_eq!(serde_json::to_string(of).unwrap(), written);
    assert_eq!(&serde_json::from_str::<T>(written).unwrap(), of);
}

#[test]
fn journals_that_exist_are_read() {
    stays(
        &"return:libapp.so:step".parse::<SyncPoint>().unwrap(),
        r#"{"moment":"return","function":"step","module":"libapp.so"}"#,
    );
    stays(
        &"entry:step".parse::<SyncPoint>().unwrap(),
        r#"{"moment":"entry","function":"step"}"#,
    );
    stays(
        &Key::Argument {
            number: 0,
            bytes: Some(4),
        },
        r#"{"argument":{"number":0,"bytes":4}}"#,
    );
    stays(
        &Key::NamedArgument { name: "n".into() },
        r#"{"named_argument":{"name":"n"}}"#,
    );
    stays(
        &Key::Variable {
            name: "n".into(),
            bytes: None,
        },
        r#"{"variable":{"name":"n","bytes":null}}"#,
    );
    stays(
        &[
            Argument::Integer(1),
            Argument::Double(2.5),
            Argument::Float(0.5),
            Argument::Text("a".into()),
            Argument::Variable("v".into()),
            Argument::Was,
        ],
        r#"[{"integer":1},{"double":2.5},{"float":0.5},{"text":"a"},{"variable":"v"},"was"]"#,
    );
    stays(
        &[
            ReturnType::Nothing,
            ReturnType::Value(ValueType::I32),
            ReturnType::Pointer,
            ReturnType::IfKnown,
        ],
        r#"["nothing",{"value":"i32"},"pointer","if_known"]"#,
    );
    stays(&Bytes::new(&[1, 0, 255]).unwrap(), r#""0100ff""#);
}

#[test]
fn an_action_that_is_sent_comes_back() {
    let call = |text| Invocation::parse(text).unwrap();
    let function = |text: &str| FunctionName::from(text);
    let inverse = Inverse::Call {
        call: call("f(was)"),
        was: Some(call("g()")),
        remains: Some("its cache stays".to_owned()),
    };
    let value = Expression::parse("clamp(original * 2, 0.5, 8)").unwrap();
    for action in [
        Action::Set(Set {
            variable: "cfg.chunk".into(),
            value_type: Some(ValueType::U8),
            everywhere: true,
            value: Scalar::Boolean(true),
        }),
        Action::call(call("m:f(1, \"a\")"), inverse),
        Action::load("lib.so"),
        Action::Patch(PatchRequest::Replace {
            function: function("a"),
            with: function("m:b"),
        }),
        Action::Patch(PatchRequest::InsertCall {
            function: function("a"),
            arguments: vec![Argument::Integer(1)],
            into: function("b"),
            place: Moment::Return,
        }),
        Action::Patch(PatchRequest::SetArgument {
            function: function("a"),
            index: 2,
            value_type: None,
            value: value.clone(),
        }),
        Action::Patch(PatchRequest::SetTeamSize { value }),
        Action::Affinity(Affinity::Cores(Cores::Spread)),
        Action::Affinity(Affinity::Cpus("0-3".parse().unwrap())),
        Action::Switch(Switch {
            probe: 1,
            name: "p".into(),
            on: false,
        }),
    ] {
        let sent = serde_json::to_string(&action).unwrap();
        assert_eq!(serde_json::from_str::<Action>(&sent).unwrap(), action, "{sent}");
    }
}
