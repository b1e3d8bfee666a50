"""Makes the data that the examples read: the same files for the same seed.

python examples/make_data.py [DIRECTORY]
"""

import csv
import json
import random
import sys
from datetime import datetime, timedelta
from pathlib import Path

SEED = 20261101
ORDERS = 3000
CLICKS = 4000
CLICK_FILES = 8
CATEGORIES = {
    "kitchen": ("kettle", "toaster", "pan", "whisk"),
    "garden": ("spade", "hose", "rake"),
    "office": ("lamp", "chair", "desk", "stapler", "shelf"),
}
COUNTRIES = ("AT", "CH", "DE", "FR", "IT")
PAGES = ("/", "/search", "/product", "/basket", "/pay")
START = datetime(2026, 11, 1)


def make_products(directory: Path, chance: random.Random) -> list[str]:
    """products.json: one JSON object on each line."""
    names = [(category, name) for category, all_names in CATEGORIES.items() for name in all_names]
    with (directory / "products.json").open("w", encoding="utf-8") as file:
        for number, (category, name) in enumerate(names, start=1):
            product = {
                "product_id": f"P{number:03}",
                "product": name,
                "category": category,
                "price": round(chance.uniform(4, 240), 2),
            }
            file.write(json.dumps(product) + "\n")
    return [f"P{number:03}" for number in range(1, len(names) + 1)]


def make_orders(directory: Path, products: list[str], chance: random.Random) -> None:
    """orders.csv: three days of orders; one in fifty was cancelled."""
    with (directory / "orders.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["order_id", "ordered_at", "product_id", "country", "quantity", "status"])
        for number in range(1, ORDERS + 1):
            at = START + timedelta(seconds=chance.randrange(3 * 24 * 3600))
            status = "cancelled" if chance.random() < 0.02 else "paid"
            writer.writerow(
                [
                    number,
                    at.isoformat(sep=" "),
                    chance.choice(products),
                    chance.choice(COUNTRIES),
                    chance.randint(1, 5),
                    status,
                ]
            )


def make_clicks(directory: Path, chance: random.Random) -> None:
    """clicks/*.json: one hour of clicks in files, as a collector would leave them."""
    clicks = directory / "clicks"
    clicks.mkdir(exist_ok=True)
    share = CLICKS // CLICK_FILES
    seconds_in_file = 3600 // CLICK_FILES
    for number in range(CLICK_FILES):
        with (clicks / f"clicks-{number:02}.json").open("w", encoding="utf-8") as file:
            for _ in range(share):
                second = number * seconds_in_file + chance.randrange(seconds_in_file)
                click = {
                    "at": (START + timedelta(seconds=second)).isoformat(),
                    "page": chance.choice(PAGES),
                    "visitor": chance.randrange(500),
                }
                file.write(json.dumps(click) + "\n")


def make_data(directory: Path, seed: int = SEED) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)
    products = make_products(directory, chance)
    make_orders(directory, products, chance)
    make_clicks(directory, chance)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "data"
    make_data(target)
    print(f"Made {ORDERS} orders and {CLICKS} clicks in {target}")
