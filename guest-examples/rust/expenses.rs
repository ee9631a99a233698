//! The data that the audit agent holds: the model only sees what the agent's tools answer.

const EXPENSES: &str = "\
E01,2026-07-01,Adler,travel,Rail Europe,18900,yes
E02,2026-07-01,Adler,lodging,Hotel Aurora,16500,yes
E03,2026-07-02,Adler,meals,Trattoria Lido,4280,yes
E04,2026-07-03,Brandt,travel,Rail Europe,21400,yes
E05,2026-07-03,Brandt,meals,Bistro Nord,5890,yes
E06,2026-07-06,Costa,equipment,Nordlicht IT,48900,yes
E07,2026-07-06,Costa,equipment,Nordlicht IT,47500,yes
E08,2026-07-07,Dumont,meals,Chez Mathilde,23840,yes
E09,2026-07-08,Brandt,lodging,Hotel Aurora,16500,yes
E10,2026-07-09,Dumont,travel,City Taxi,3450,no
E11,2026-07-10,Adler,software,Cloud Ledger,12900,yes
E12,2026-07-13,Brandt,software,Cloud Ledger,12900,yes
E13,2026-07-14,Costa,meals,Sushi Hana,5650,yes
E14,2026-07-16,Dumont,lodging,Grand Palace,31200,yes
E15,2026-07-17,Costa,travel,Fly Iberia,38700,yes
E16,2026-07-17,Costa,travel,Fly Iberia,38700,yes
E17,2026-07-20,Adler,meals,Cafe Central,1240,no
E18,2026-07-22,Dumont,travel,Rail Europe,9800,yes
";

pub const POLICY: [(&str, &str); 5] = [
    ("meal-limit", "A meal is refunded up to 60.00 EUR."),
    ("hotel-limit", "A night in a hotel is refunded up to 180.00 EUR."),
    ("receipt", "Above 25.00 EUR a receipt is needed."),
    ("split", "Above 500.00 EUR a purchase needs approval; splitting one to stay below is not allowed."),
    ("duplicate", "The same cost is refunded once."),
];

pub struct Claim {
    pub id: &'static str,
    pub date: &'static str,
    pub employee: &'static str,
    pub category: &'static str,
    pub merchant: &'static str,
    pub cents: i64,
    pub receipt: bool,
    /// The rule it was flagged for.
    pub rule: Option<&'static str>,
}

impl Claim {
    fn parse(line: &'static str) -> Option<Claim> {
        let mut columns = line.split(',');
        let mut next = || columns.next();
        Some(Claim {
            id: next()?,
            date: next()?,
            employee: next()?,
            category: next()?,
            merchant: next()?,
            cents: next()?.parse().ok()?,
            receipt: next()? == "yes",
            rule: None,
        })
    }

    /// The text of a column, for the tools that take its name.
    pub fn column(&self, name: &str) -> Option<&'static str> {
        match name {
            "employee" => Some(self.employee),
            "category" => Some(self.category),
            "merchant" => Some(self.merchant),
            _ => None,
        }
    }
}

pub fn load_claims() -> Vec<Claim> {
    EXPENSES.lines().filter_map(Claim::parse).collect()
}
