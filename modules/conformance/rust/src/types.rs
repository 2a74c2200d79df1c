//! `types`: every type expression. `defaults`: the default of each.

use aos_sdk::prelude::*;

#[derive(Schema, Clone, Default)]
#[schema("conformance/Number@1")]
pub struct Number(pub u64);

#[derive(Schema, Clone, Default)]
#[schema("conformance/Nothing@1")]
pub struct Nothing(());

#[derive(Schema, Clone, Default)]
#[schema("conformance/Point@1")]
pub struct Point {
    pub x: i64,
    pub y: i64,
}

#[derive(Schema, Clone, Default)]
#[schema("conformance/Shape@1")]
pub enum Shape {
    #[default]
    Empty,
    Dot(Point),
    Line(Vec<Point>),
    Named {
        name: String,
        at: Option<Point>,
    },
    Nothing(Nothing),
}

#[derive(Schema, Clone, Default)]
pub struct Inner {
    pub c: String,
}

#[derive(Schema, Clone, Default)]
pub struct Record {
    pub a: i64,
    pub b: Inner,
}

#[derive(Schema, Clone)]
pub enum Variant {
    Number(i64),
    Nothing,
    Pair { left: u64, right: String },
}

impl Default for Variant {
    fn default() -> Variant {
        Variant::Number(0)
    }
}

#[derive(Schema, Clone, Default)]
#[schema("conformance/Everything@1")]
pub struct Everything {
    yes: bool,
    int: i64,
    nat: u64,
    dec: Decimal,
    bytes: Vec<u8>,
    text: String,
    time: Time,
    duration: Duration,
    hash: Hash,
    uuid: Uuid,
    unit: (),
    record: Record,
    variant: Variant,
    list: Vec<i64>,
    lists: Vec<Vec<String>>,
    ints: Set<i64>,
    texts: Set<String>,
    points: Set<Point>,
    by_int: Map<i64, String>,
    by_nat: Map<u64, Point>,
    by_text: Map<String, Vec<u64>>,
    by_uuid: Map<Uuid, bool>,
    by_hash: Map<Hash, Option<i64>>,
    maybe: Option<String>,
    maybe_nat: Option<u64>,
    maybe_bytes: Option<Vec<Vec<u8>>>,
    maybe_point: Option<Point>,
    options: Vec<Option<bool>>,
    point: Point,
    shape: Shape,
    shapes: Vec<Shape>,
    number: Number,
    nothing: Nothing,
    r#type: String,
    #[schema(rename = "x-rate")]
    rate: u64,
}

#[derive(Schema)]
#[schema("conformance/Build@1")]
pub struct Build {}

#[derive(Schema)]
#[schema("conformance/Echo@1")]
pub struct Echo {
    value: Everything,
}

#[derive(Event)]
#[schema("conformance/TypesEvent@1")]
pub enum TypesEvent {
    Put(Everything),
    Build(Build),
}

#[derive(Schema, Default)]
#[schema("conformance/TypesState@1")]
pub struct TypesState {
    last: Option<Everything>,
    steps: u64,
}

#[workflow("conformance/types@1", module = "conformance/module@1", routes(Everything, Build))]
fn types(state: &mut TypesState, event: TypesEvent, cx: &mut Context) -> Result<(), Fault> {
    let value = match event {
        TypesEvent::Put(value) => value,
        TypesEvent::Build(_) => built()?,
    };
    state.last = Some(value.clone());
    state.steps += 1;
    cx.emit(Echo { value });
    Ok(())
}

#[derive(Schema)]
#[schema("conformance/Touch@1")]
pub struct Touch {}

#[workflow("conformance/defaults@1", module = "conformance/module@1", routes(Touch))]
fn defaults(_state: &mut Everything, _event: Touch, _cx: &mut Context) {}

fn point(x: i64, y: i64) -> Point {
    Point { x, y }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| text.to_string()).collect()
}

fn parsed<T>(value: Option<T>) -> Result<T, Fault> {
    value.ok_or_else(|| Fault::new("conformance", "the text is none of its type"))
}

fn hash(algorithm: &str, digit: &str) -> Result<Hash, Fault> {
    parsed(Hash::parse(&[algorithm, &digit.repeat(64)].concat()))
}

fn built() -> Result<Everything, Fault> {
    Ok(Everything {
        yes: true,
        int: i64::MIN,
        nat: u64::MAX,
        dec: parsed(Decimal::parse("+001.500e1"))?,
        bytes: vec![0, 1, 0xff],
        text: "é日本🎉\"\\\n".into(),
        time: Time::from_ns(-1),
        duration: Duration::seconds(90),
        hash: hash("sha256:", "a")?,
        uuid: parsed(Uuid::parse("00112233-4455-6677-8899-AABBCCDDEEFF"))?,
        unit: (),
        record: Record { a: -24, b: Inner { c: "c".into() } },
        variant: Variant::Pair { left: 24, right: String::new() },
        list: vec![23, 24, -24, -25],
        lists: vec![vec![], texts(&["a", "bb"])],
        ints: [3, -1, 24, 3, 256, -25, 0].into_iter().collect(),
        texts: texts(&["bb", "a", "", "b", "a"]).into_iter().collect(),
        points: [point(2, 1), point(1, 2), point(2, 1), point(-1, 0)].into_iter().collect(),
        by_int: [(1, "one"), (-1, "minus one"), (1000, "thousand"), (-25, "far"), (24, "x")]
            .into_iter()
            .map(|(key, text)| (key, text.to_string()))
            .collect(),
        by_nat: [(300, point(3, 0)), (2, point(0, 0))].into_iter().collect(),
        by_text: [("bb", vec![]), ("b", vec![1, 2]), ("aaa", vec![0])]
            .into_iter()
            .map(|(key, list)| (key.to_string(), list))
            .collect(),
        by_uuid: [
            (parsed(Uuid::parse("ffffffff-ffff-4fff-bfff-ffffffffffff"))?, true),
            (parsed(Uuid::parse("00000000-0000-4000-8000-000000000000"))?, false),
        ]
        .into_iter()
        .collect(),
        by_hash: [(hash("blake3:", "0")?, None), (hash("blake3:", "f")?, Some(-1))]
            .into_iter()
            .collect(),
        maybe: None,
        maybe_nat: Some(0),
        maybe_bytes: Some(vec![]),
        maybe_point: Some(point(7, -7)),
        options: vec![None, Some(true), Some(false)],
        point: point(0, 1),
        shape: Shape::Named { name: "n".into(), at: None },
        shapes: vec![
            Shape::Empty,
            Shape::Dot(point(1, 1)),
            Shape::Line(vec![point(0, 0), point(1, 1)]),
            Shape::Named { name: String::new(), at: Some(point(5, 5)) },
            Shape::Nothing(Nothing(())),
        ],
        number: Number(7),
        nothing: Nothing(()),
        r#type: "t".into(),
        rate: 65536,
    })
}
