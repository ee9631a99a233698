// The data that the audit agent holds: the model only sees what the agent's tools answer.

const CSV = `E01,2026-07-01,Adler,travel,Rail Europe,18900,yes
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
E18,2026-07-22,Dumont,travel,Rail Europe,9800,yes`;

export class Rule {
  constructor(readonly name: string, readonly text: string) {}
}

export const policy: Rule[] = [
  new Rule("meal-limit", "A meal is refunded up to 60.00 EUR."),
  new Rule("hotel-limit", "A night in a hotel is refunded up to 180.00 EUR."),
  new Rule("receipt", "Above 25.00 EUR a receipt is needed."),
  new Rule("split", "Above 500.00 EUR a purchase needs approval; splitting one to stay below is not allowed."),
  new Rule("duplicate", "The same cost is refunded once."),
];

export class Claim {
  readonly id: string;
  readonly date: string;
  readonly employee: string;
  readonly category: string;
  readonly merchant: string;
  readonly cents: i32;
  readonly receipt: bool;
  /** The rule it was flagged for. */
  rule: string = "";

  constructor(line: string) {
    const fields = line.split(",");
    this.id = fields[0];
    this.date = fields[1];
    this.employee = fields[2];
    this.category = fields[3];
    this.merchant = fields[4];
    this.cents = I32.parseInt(fields[5]);
    this.receipt = fields[6] == "yes";
  }

  /** The text of a column, for the tools that take its name; "" if there is no such column. */
  column(name: string): string {
    if (name == "employee") return this.employee;
    if (name == "category") return this.category;
    if (name == "merchant") return this.merchant;
    return "";
  }
}

export const claims: Claim[] = CSV.split("\n").map<Claim>((line) => new Claim(line));
